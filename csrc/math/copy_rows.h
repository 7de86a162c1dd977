// Coupling the copies of one row by a team of lanes, as a warp does on a GPU.
//
// Each lane owns the numbers that it adds to, so that there are no atomics and the same bits come
// out every time. A team has `lane`, `lanes`, `sync()`, behind which lanes see what others wrote,
// and `sum()` of a number of each lane.
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

// Call add(key(entry), sum) for runs of coefficients of one key, with the sum of these times term.
// Every coefficient is read once: those that make one component seldom are side by side.
template <class T, class Key, class Term, class Add>
EQUIGEO_HOST_DEVICE void for_runs(
    const PathTable<T>& table, const Path& path, const Key& key, const Term& term, const Add& add) {
  T sum = 0;
  for (int64_t n = path.first; n < path.last; ++n) {
    const Entry e = table.entry[n];
    sum += table.value[n] * term(e);
    if (n + 1 == path.last || key(table.entry[n + 1]) != key(e)) {
      add(key(e), sum);
      sum = 0;
    }
  }
}

// The copies of the inputs that make one of the output.
struct Pair {
  int64_t u, v;
};

EQUIGEO_HOST_DEVICE Pair pair_of(const Path& path, bool matched, int64_t copy) {
  const uint32_t n = static_cast<uint32_t>(copy), mul2 = static_cast<uint32_t>(path.y.mul);
  return matched ? Pair{copy, copy} : Pair{n / mul2, n % mul2};
}

template <class T, class Team>
EQUIGEO_HOST_DEVICE void copywise_row(
    const CopywiseProduct<T>& op, int64_t number, const Team& team) {
  const CopyRow<T> row(op, number);
  T* out = op.out + number * row.table.dim_out;
  clear_row(out, row.table.dim_out, team);
  for (int64_t p = 0; p < row.table.count; ++p) {
    const Path path = row.table.path[p];  // a copy: no store changes it
    const bool matched = is_matched(path);
    for (int64_t copy = team.lane; copy < path.out.mul; copy += team.lanes) {
      const Pair pair = pair_of(path, matched, copy);
      const T weight = row.weight_of(path, copy);
      for_runs(
          row.table, path, [](const Entry& e) { return e.k; },
          [&](const Entry& e) {
            return row.x[position(path.x, pair.u, e.i)] * row.y[position(path.y, pair.v, e.j)];
          },
          [&](int64_t k, T sum) { out[position(path.out, copy, k)] += weight * sum; });
    }
    team.sync();
  }
}

// Gradients of one path.
template <class T, class Team>
struct CopySlopes {
  const CopyRow<T>& row;
  const Path& path;
  bool matched;
  const T* grad;
  Team team;

  // Weight of the copy that u and v make, times component k of its gradient.
  EQUIGEO_HOST_DEVICE T arriving(int64_t u, int64_t v, int64_t k) const {
    const int64_t copy = matched ? u : u * path.y.mul + v;
    return row.weight_of(path, copy) * grad[position(path.out, copy, k)];
  }

  EQUIGEO_HOST_DEVICE void first(T* grad_x) const {
    for (int64_t u = team.lane; u < path.x.mul; u += team.lanes) {
      const int64_t begin = matched ? u : 0, end = matched ? u + 1 : path.y.mul;
      for_runs(
          row.table, path, [](const Entry& e) { return e.i; },
          [&](const Entry& e) {
            T sum = 0;
            for (int64_t v = begin; v < end; ++v) {
              sum += row.y[position(path.y, v, e.j)] * arriving(u, v, e.k);
            }
            return sum;
          },
          [&](int64_t i, T sum) { grad_x[position(path.x, u, i)] += sum; });
    }
  }

  // There are few copies of the second input where all pairs are made: lanes share the first ones.
  EQUIGEO_HOST_DEVICE void second(T* grad_y) const {
    for (int64_t v = matched ? team.lane : 0; v < path.y.mul; v += matched ? team.lanes : 1) {
      const int64_t begin = matched ? v : team.lane, end = matched ? v + 1 : path.x.mul;
      for_runs(
          row.table, path, [](const Entry& e) { return e.j; },
          [&](const Entry& e) {
            T sum = 0;
            for (int64_t u = begin; u < end; u += team.lanes) {
              sum += row.x[position(path.x, u, e.i)] * arriving(u, v, e.k);
            }
            return sum;
          },
          [&](int64_t j, T sum) {
            const T all = matched ? sum : team.sum(sum);
            if (matched || team.lane == 0) {
              grad_y[position(path.y, v, j)] += all;
            }
          });
    }
  }

  EQUIGEO_HOST_DEVICE void weight(T* grad_weight) const {
    for (int64_t copy = team.lane; copy < path.out.mul; copy += team.lanes) {
      const Pair pair = pair_of(path, matched, copy);
      T sum = 0;
      for (int64_t n = path.first; n < path.last; ++n) {
        const Entry e = row.table.entry[n];
        sum += row.table.value[n] * row.x[position(path.x, pair.u, e.i)] *
               row.y[position(path.y, pair.v, e.j)] * grad[position(path.out, copy, e.k)];
      }
      grad_weight[path.weight + copy] += sum;
    }
  }
};

template <class T, class Team>
EQUIGEO_HOST_DEVICE void copywise_backward_row(
    const CopywiseProductBackward<T>& op, int64_t number, const Team& team) {
  const CopyRow<T> row(op, number);
  const PathTable<T>& table = row.table;
  const T* grad = op.grad + number * table.dim_out;
  T* grad_x = op.grad_x + number * table.dim_x;
  T* grad_y = op.grad_y + number * table.dim_y;
  const bool by_weight = op.grad_weight != nullptr;
  T* grad_weight = by_weight ? op.grad_weight + number * table.dim_weight : nullptr;
  clear_row(grad_x, table.dim_x, team);
  clear_row(grad_y, table.dim_y, team);
  clear_row(grad_weight, by_weight ? table.dim_weight : 0, team);
  for (int64_t p = 0; p < table.count; ++p) {
    const Path& path = table.path[p];
    const CopySlopes<T, Team> slopes{row, path, is_matched(path), grad, team};
    slopes.first(grad_x);
    slopes.second(grad_y);
    if (by_weight) {
      slopes.weight(grad_weight);
    }
    team.sync();
  }
}

}  // namespace
}  // namespace equigeo
