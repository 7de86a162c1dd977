// What both passes of the convolution by orders do with a tile of edges.
#pragma once

#include "kernels/cpu/packed_matrix.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/so2_conv.h"
#include "kernels/cpu/so2_rotate.h"
#include "math/edges.h"

namespace equigeo {
namespace {

// Memory of numbers by order, with `parts` rows for each edge of a tile; order 0 has one.
template <class T>
inline int64_t orders_size(
    const SO2Plan& plan, const int64_t* widths, int64_t last, int64_t parts) {
  int64_t size = 0;
  for (int64_t m = 0; m <= last; ++m) {
    size += Scratch<T>::round_up((m == 0 ? 1 : parts) * plan.tile * spread<T>(widths[m]));
  }
  return size;
}

template <class T>
inline Orders<T> take_orders(
    const SO2Plan& plan, const int64_t* widths, int64_t last, int64_t parts, Scratch<T>& memory) {
  Orders<T> found{};
  found.tile = plan.tile;
  for (int64_t m = 0; m <= last; ++m) {
    found.stride[m] = spread<T>(widths[m]);
    const int64_t rows = (m == 0 ? 1 : parts) * plan.tile;
    found.at[m] = memory.take(rows * found.stride[m]);
    for (int64_t row = 0; row < rows; ++row) {  // what is beyond the widths is multiplied too
      fill_zero(
          found.at[m] + row * found.stride[m] + widths[m], padded_width(widths[m]) - widths[m]);
    }
  }
  return found;
}

// Matrices of all degrees of the edges of a tile.
template <class T>
class TileRotations {
 public:
  static constexpr int64_t kLanes = kWidth<WidePack<T>, T>;

  static int64_t size(const SO2Plan& plan) {
    const int64_t groups = (plan.tile + kLanes - 1) / kLanes;
    return Scratch<T>::round_up(groups * entries_below(plan.lmax + 1) * kLanes);
  }

  TileRotations(const SO2Plan& plan, Scratch<T>& memory)
      : lmax_(plan.lmax),
        entries_(entries_below(plan.lmax + 1)),
        matrices_(memory.take(size(plan))) {
    fill_recurrence(plan.lmax, recurrence_);
  }

  // vector(e) is where the three coordinates of an edge are; lengths are inverted.
  template <class Vector>
  void compute(int64_t edges, int64_t top, const Vector& vector, T* inverse) {
    for (int64_t first = 0; first < edges; first += kLanes) {
      T rotation[9 * kLanes];
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        double frame[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
        if (first + lane < edges) {
          const T* r = vector(first + lane);
          inverse[first + lane] = static_cast<T>(edge_frame(r[0], r[1], r[2], frame));
        }
        for (int n = 0; n < 9; ++n) {
          rotation[n * kLanes + lane] = static_cast<T>(frame[n]);
        }
        if (lmax_ > 0) {
          for (int n = 0; n < 9; ++n) {
            matrices_[first * entries_ + (1 + n) * kLanes + lane] = rotation[n * kLanes + lane];
          }
        }
      }
      edge_matrices<T>(recurrence_, lmax_, top, rotation, matrices_ + first * entries_);
    }
  }

  // The matrix of degree l of an edge, whose entries are kLanes apart.
  const T* of(int64_t edge, int64_t l) const {
    const int64_t lane = edge % kLanes;
    return matrices_ + (edge - lane) * entries_ + entries_below(l) * kLanes + lane;
  }

 private:
  int64_t lmax_, entries_;
  Recurrence recurrence_;
  T* matrices_;
};

// Ask for a row that is needed soon: those of the other ends of edges lie anywhere.
template <class T>
inline void prefetch_row(const T* row, int64_t count) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t n = 0; n < count; n += kLine) {
    __builtin_prefetch(row + n);
  }
}

// Third rows: sums of both parts.
template <class T>
inline void add_parts(const Orders<T>& orders, int64_t m, int64_t width, int64_t edges) {
  for (int64_t e = 0; e < edges; ++e) {
    const T *a = orders.row(m, 0, e), *b = orders.row(m, 1, e);
    T* sum = orders.row(m, 2, e);
    for (int64_t c = 0; c < width; ++c) {
      sum[c] = a[c] + b[c];
    }
  }
}

// to = matrix @ from by order. A complex product is three real ones: of the sum of both parts with
// the real matrix, and of each part with what is left.
template <class T>
inline void mix_orders(
    const SO2Plan& plan,
    const Orders<T>& from,
    const int64_t* widths,
    const T* packed,
    const int64_t* offsets,
    const int64_t* widths_to,
    const Orders<T>& to,
    int64_t edges) {
  for (int64_t m = 0; m <= plan.mmax; ++m) {
    const int64_t inner = widths[m], columns = widths_to[m];
    const T* matrix = packed + offsets[m];
    const auto multiply = [&](int64_t part, const T* by, int64_t to_part, bool add) {
      multiply_packed(
          from.row(m, part, 0), from.stride[m], edges, inner, by, columns, to.row(m, to_part, 0),
          to.stride[m], add);
    };
    if (m == 0) {
      multiply(0, matrix, 0, false);
      continue;
    }
    if (!plan.complex_weights) {
      multiply(0, matrix, 0, false);
      multiply(1, matrix, 1, false);
      continue;
    }
    add_parts(from, m, inner, edges);
    const int64_t size = padded_width(columns) * inner;
    multiply(2, matrix, 0, false);
    for (int64_t e = 0; e < edges; ++e) {
      copy_row(to.row(m, 0, e), columns, to.row(m, 1, e));
    }
    multiply(1, matrix + size, 0, true);
    multiply(0, matrix + 2 * size, 1, true);
  }
}

// Modulation of the edges of a tile.
template <class T>
class TileModulation {
 public:
  static int64_t size(const SO2Plan& plan, const SO2PackedModulation<T>& given) {
    if (given.radial == nullptr) {
      return 0;
    }
    return Scratch<T>::round_up(plan.tile * spread<T>(plan.scale_numel)) +
           Scratch<T>::round_up(plan.tile * spread<T>(given.numbers));
  }

  TileModulation(const SO2Plan& plan, const SO2PackedModulation<T>& given, Scratch<T>& memory)
      : plan_(plan),
        given_(given),
        stride_(spread<T>(plan.scale_numel)),
        hidden_stride_(spread<T>(given.numbers)) {
    if (given.radial != nullptr && !memory.failed()) {
      made_ = memory.take(plan.tile * stride_);
      hidden_ = memory.take(plan.tile * hidden_stride_);
      fill_zero(hidden_, plan.tile * hidden_stride_);
    }
  }

  bool any() const { return given_.scale != nullptr; }

  // row(e) is the row of an edge among all.
  template <class Row>
  void compute(int64_t edges, const Row& row) {
    if (given_.radial == nullptr) {
      return;
    }
    for (int64_t e = 0; e < edges; ++e) {
      copy_row(
          given_.scale + row(e) * given_.numbers, given_.numbers, hidden_ + e * hidden_stride_);
    }
    multiply_packed(
        hidden_, hidden_stride_, edges, given_.numbers, given_.radial, plan_.scale_numel, made_,
        stride_, false);
  }

  const T* of(int64_t edge, int64_t row) const {
    return given_.radial == nullptr ? given_.scale + row * given_.numbers : made_ + edge * stride_;
  }

  // Of an edge that comes soon.
  void prefetch(int64_t row) const {
    if (any() && given_.radial == nullptr) {
      prefetch_row(given_.scale + row * given_.numbers, given_.numbers);
    }
  }

  const T* hidden() const { return hidden_; }
  int64_t hidden_stride() const { return hidden_stride_; }

 private:
  const SO2Plan& plan_;
  const SO2PackedModulation<T>& given_;
  int64_t stride_, hidden_stride_;
  T *made_ = nullptr, *hidden_ = nullptr;
};

}  // namespace
}  // namespace equigeo
