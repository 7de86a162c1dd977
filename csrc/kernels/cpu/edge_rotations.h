// Rotations of edges onto the y axis in all degrees, for as many edges at a time as a register has
// lanes.
#pragma once

#include "kernels/cpu/pack.h"

namespace equigeo {
namespace {

constexpr int64_t kMostDegree = 10;

// What a row of a degree takes of the rows of the rotation and of the degree below.
struct RecurrenceRow {
  int count;
  int64_t rotation[5], below[5];
  double factor[5];
};

// The recurrence of Ivanic and Ruedenberg; see equigeo/ops/edges/wigner_recurrence.py.
class Recurrence {
 public:
  explicit Recurrence(int64_t lmax) {
    for (int64_t l = 2; l <= lmax; ++l) {
      for (int64_t m = -l; m <= l; ++m) {
        fill_row(l, m, rows_[l][l + m]);
        const int64_t square = m == l || m == -l ? 2 * l * (2 * l - 1) : (l + m) * (l - m);
        columns_[l][l + m] = 1 / __builtin_sqrt(static_cast<double>(square));
      }
    }
  }

  const RecurrenceRow& row(int64_t l, int64_t m) const { return rows_[l][l + m]; }
  const double* columns(int64_t l) const { return columns_[l]; }

 private:
  static void fill_row(int64_t l, int64_t m, RecurrenceRow& row) {
    const int64_t k = m < 0 ? -m : m;
    const double root2 = __builtin_sqrt(2.0);
    row.count = 0;
    const auto add = [&](int64_t i, int64_t n, double factor) {
      if (factor != 0) {
        row.rotation[row.count] = i + 1;
        row.below[row.count] = l - 1 + n;
        row.factor[row.count++] = factor;
      }
    };
    const auto root = [](int64_t n) { return __builtin_sqrt(static_cast<double>(n)); };
    const double v = 0.5 * root((m == 0 ? 2 : 1) * (l + k - 1) * (l + k)) * (m == 0 ? -1 : 1);
    const double w = 0 < k && k < l ? -0.5 * root((l - k - 1) * (l - k)) : 0.0;
    if (k < l) {
      add(0, m, root((l + m) * (l - m)));
    }
    if (m == 0) {
      add(1, 1, v);
      add(-1, -1, v);
      return;
    }
    const int64_t sign = m > 0 ? 1 : -1;
    // The rows of the degree below that the two other rows of the rotation meet.
    const double first = m > 0 ? (m == 1 ? root2 * v : v) : (m == -1 ? 0.0 : v);
    const double second = m > 0 ? (m == 1 ? 0.0 : -v) : (m == -1 ? root2 * v : v);
    add(1, m - sign, first);
    add(-1, sign - m, second);
    if (w != 0) {
      add(1, m + sign, w);
      add(-1, -m - sign, m > 0 ? w : -w);
    }
  }

  RecurrenceRow rows_[kMostDegree + 1][2 * kMostDegree + 1];
  double columns_[kMostDegree + 1][2 * kMostDegree + 1];
};

// Entries of the matrices of all degrees below l.
EQUIGEO_HOST_DEVICE int64_t entries_below(int64_t l) { return l * (4 * l * l - 1) / 3; }

// Rotation of one edge and the inverse of its length, zero where it has none; in float64.
EQUIGEO_HOST_DEVICE double edge_frame(double x, double y, double z, double rotation[9]) {
  const double square = x * x + y * y + z * z;
  const bool alive = square > 0;
  const double inverse = alive ? 1 / __builtin_sqrt(square) : 0;
  x *= inverse;
  y = alive ? y * inverse : 1;
  z *= inverse;
  const double sign = y >= 0 ? 1 : -1;
  const double k = 1 / (1 + sign * y);
  const double found[9] = {
      1 - k * x * x, -sign * x, -k * x * z, x, y, z, -sign * k * x * z, -z, sign * (1 - k * z * z)};
  __builtin_memcpy(rotation, found, sizeof found);
  return inverse;
}

// Matrices of degrees 0 to lmax, entry by entry with all lanes together; of degree l only rows
// |m| <= top + lmax - l are computed, which is what rows |m| <= top of all degrees need.
template <class T>
inline void edge_matrices(
    const Recurrence& recurrence, int64_t lmax, int64_t top, const T* rotation, T* to) {
  using Pack = WidePack<T>;
  constexpr int64_t kW = kWidth<Pack, T>;
  Pack turned[9];
  for (int n = 0; n < 9; ++n) {
    turned[n] = Memory<Pack, T>::load(rotation + n * kW);
    if (lmax > 0) {
      Memory<Pack, T>::store(to + (1 + n) * kW, turned[n]);
    }
  }
  Memory<Pack, T>::store(to, Pack{} + T(1));
  for (int64_t l = 2; l <= lmax; ++l) {
    const int64_t width = 2 * l + 1, under = 2 * l - 1;
    const T* below = to + entries_below(l - 1) * kW;
    T* here = to + entries_below(l) * kW;
    const double* columns = recurrence.columns(l);
    const int64_t most = top + lmax - l < l ? top + lmax - l : l;
    for (int64_t m = -most; m <= most; ++m) {
      const RecurrenceRow& row = recurrence.row(l, m);
      T* line = here + (l + m) * width * kW;
      Pack left[5], middle[5], right[5];
      const T* from[5];
      for (int n = 0; n < row.count; ++n) {
        const Pack* three = turned + 3 * row.rotation[n];
        const T factor = static_cast<T>(row.factor[n]);
        left[n] = factor * three[0];
        middle[n] = factor * three[1];
        right[n] = factor * three[2];
        from[n] = below + row.below[n] * under * kW;
      }
      Pack first{}, last{};
      for (int n = 0; n < row.count; ++n) {
        const Pack low = Memory<Pack, T>::load(from[n]);
        const Pack high = Memory<Pack, T>::load(from[n] + (under - 1) * kW);
        first += right[n] * low + left[n] * high;
        last += right[n] * high - left[n] * low;
      }
      Memory<Pack, T>::store(line, first * static_cast<T>(columns[0]));
      Memory<Pack, T>::store(line + (width - 1) * kW, last * static_cast<T>(columns[width - 1]));
      for (int64_t b = 0; b < under; ++b) {
        Pack sum{};
        for (int n = 0; n < row.count; ++n) {
          sum += middle[n] * Memory<Pack, T>::load(from[n] + b * kW);
        }
        Memory<Pack, T>::store(line + (b + 1) * kW, sum * static_cast<T>(columns[b + 1]));
      }
    }
  }
}

}  // namespace
}  // namespace equigeo
