// Coupling the copies of one row by a team of lanes, as a warp does on a GPU.
//
// Each lane owns the numbers that it adds to, so that there are no atomics and the same bits come
// out every time. A team has `lane`, `lanes` and `sync()`, behind which lanes see what others
// wrote.
#pragma once

#include "args/products.h"
#include "math/host_device.h"
#include "math/path_table.h"

namespace equigeo {
namespace {

EQUIGEO_HOST_DEVICE int64_t position(const Segment& segment, int64_t copy, int64_t component) {
  return segment.offset + copy * segment.copy + component * segment.step;
}

template <class T, class Team>
EQUIGEO_HOST_DEVICE void clear_row(T* row, int64_t count, const Team& team) {
  for (int64_t n = team.lane; n < count; n += team.lanes) {
    row[n] = 0;
  }
  team.sync();
}

// The operands of one row; weights are null where there are none.
template <class T>
struct CopyRow {
  const PathTable<T>& table;
  const T* x;
  const T* y;
  const T* weight;

  template <class Op>
  EQUIGEO_HOST_DEVICE CopyRow(const Op& op, int64_t row)
      : table(op.table),
        x(op.x + row * op.table.dim_x),
        y(op.y + row * op.table.dim_y),
        weight(op.weight == nullptr ? nullptr : op.weight + row * op.weight_stride) {}

  EQUIGEO_HOST_DEVICE T weight_of(const Path& path, int64_t copy) const {
    return weight == nullptr ? T(1) : weight[path.weight + copy];
  }
};

// Component k that copies u and v make.
template <class T>
EQUIGEO_HOST_DEVICE T
couple_copies(const CopyRow<T>& row, const Path& path, int64_t u, int64_t v, int64_t k) {
  T sum = 0;
  for (int64_t n = path.first; n < path.last; ++n) {
    const Entry e = row.table.entry[n];
    if (e.k == k) {
      sum += row.table.value[n] * row.x[position(path.x, u, e.i)] * row.y[position(path.y, v, e.j)];
    }
  }
  return sum;
}

template <class T, class Team>
EQUIGEO_HOST_DEVICE void copywise_row(
    const CopywiseProduct<T>& op, int64_t number, const Team& team) {
  const CopyRow<T> row(op, number);
  T* out = op.out + number * row.table.dim_out;
  clear_row(out, row.table.dim_out, team);
  for (int64_t p = 0; p < row.table.count; ++p) {
    const Path& path = row.table.path[p];
    const bool matched = is_matched(path);
    for (int64_t n = team.lane; n < path.out.mul * path.out.d; n += team.lanes) {
      const int64_t copy = n / path.out.d, k = n % path.out.d;
      const int64_t u = matched ? copy : copy / path.y.mul;
      const int64_t v = matched ? copy : copy % path.y.mul;
      out[position(path.out, copy, k)] +=
          row.weight_of(path, copy) * couple_copies(row, path, u, v, k);
    }
    team.sync();
  }
}

// Gradients of one path for one component of a copy of an input, or for the weight of a copy.
template <class T>
struct CopySlopes {
  const CopyRow<T>& row;
  const T* grad;

  // Of component i of the copy of the first input that goes with copy v.
  EQUIGEO_HOST_DEVICE T first(const Path& path, int64_t v, int64_t copy, int64_t i) const {
    T sum = 0;
    for (int64_t n = path.first; n < path.last; ++n) {
      const Entry e = row.table.entry[n];
      if (e.i == i) {
        sum += row.table.value[n] * row.y[position(path.y, v, e.j)] *
               grad[position(path.out, copy, e.k)];
      }
    }
    return row.weight_of(path, copy) * sum;
  }

  // Of component j of the copy of the second input that goes with copy u.
  EQUIGEO_HOST_DEVICE T second(const Path& path, int64_t u, int64_t copy, int64_t j) const {
    T sum = 0;
    for (int64_t n = path.first; n < path.last; ++n) {
      const Entry e = row.table.entry[n];
      if (e.j == j) {
        sum += row.table.value[n] * row.x[position(path.x, u, e.i)] *
               grad[position(path.out, copy, e.k)];
      }
    }
    return row.weight_of(path, copy) * sum;
  }

  EQUIGEO_HOST_DEVICE T weight(const Path& path, int64_t u, int64_t v, int64_t copy) const {
    T sum = 0;
    for (int64_t n = path.first; n < path.last; ++n) {
      const Entry e = row.table.entry[n];
      sum += row.table.value[n] * row.x[position(path.x, u, e.i)] *
             row.y[position(path.y, v, e.j)] * grad[position(path.out, copy, e.k)];
    }
    return sum;
  }
};

template <class T, class Team>
EQUIGEO_HOST_DEVICE void copywise_backward_row(
    const CopywiseProductBackward<T>& op, int64_t number, const Team& team) {
  const CopyRow<T> row(op, number);
  const PathTable<T>& table = row.table;
  const CopySlopes<T> slopes{row, op.grad + number * table.dim_out};
  T* grad_x = op.grad_x + number * table.dim_x;
  T* grad_y = op.grad_y + number * table.dim_y;
  const bool by_weight = op.grad_weight != nullptr;
  T* grad_weight = by_weight ? op.grad_weight + number * table.dim_weight : nullptr;
  clear_row(grad_x, table.dim_x, team);
  clear_row(grad_y, table.dim_y, team);
  clear_row(grad_weight, by_weight ? table.dim_weight : 0, team);
  for (int64_t p = 0; p < table.count; ++p) {
    const Path& path = table.path[p];
    const bool matched = is_matched(path);
    const int64_t mul = path.x.mul, mul2 = path.y.mul;
    for (int64_t n = team.lane; n < mul * path.x.d; n += team.lanes) {
      const int64_t u = n / path.x.d, i = n % path.x.d;
      T sum = 0;
      for (int64_t v = matched ? u : 0; v < (matched ? u + 1 : mul2); ++v) {
        sum += slopes.first(path, v, matched ? u : u * mul2 + v, i);
      }
      grad_x[position(path.x, u, i)] += sum;
    }
    for (int64_t n = team.lane; n < mul2 * path.y.d; n += team.lanes) {
      const int64_t v = n / path.y.d, j = n % path.y.d;
      T sum = 0;
      for (int64_t u = matched ? v : 0; u < (matched ? v + 1 : mul); ++u) {
        sum += slopes.second(path, u, matched ? u : u * mul2 + v, j);
      }
      grad_y[position(path.y, v, j)] += sum;
    }
    for (int64_t n = team.lane; by_weight && n < path.out.mul; n += team.lanes) {
      grad_weight[path.weight + n] +=
          slopes.weight(path, matched ? n : n / mul2, matched ? n : n % mul2, n);
    }
    team.sync();
  }
}

}  // namespace
}  // namespace equigeo
