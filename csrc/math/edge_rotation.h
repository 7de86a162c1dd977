// Rotations of edges onto the y axis in all degrees, each from the one of the degree below.
#pragma once

#include "math/host_device.h"
#include "math/square_root.h"

namespace equigeo {
namespace {

constexpr int64_t kMostDegree = 10;
constexpr int kMostSources = 5;

// What a row of a degree takes of the rows of the rotation and of the degree below.
struct RecurrenceRow {
  int count;
  int rotation[kMostSources], below[kMostSources];
  double factor[kMostSources];
};

// Row m of degree l, of the recurrence of Ivanic and Ruedenberg; see
// equigeo/ops/edges/rotate_edges.py.
EQUIGEO_HOST_DEVICE RecurrenceRow recurrence_row(int l, int m) {
  RecurrenceRow row{};
  const int k = m < 0 ? -m : m;
  const double root2 = square_root(2.0);
  const auto add = [&](int i, int n, double factor) {
    if (factor != 0) {
      row.rotation[row.count] = i + 1;
      row.below[row.count] = l - 1 + n;
      row.factor[row.count++] = factor;
    }
  };
  const auto root = [](int n) { return square_root(static_cast<double>(n)); };
  const double v = 0.5 * root((m == 0 ? 2 : 1) * (l + k - 1) * (l + k)) * (m == 0 ? -1 : 1);
  const double w = 0 < k && k < l ? -0.5 * root((l - k - 1) * (l - k)) : 0.0;
  if (k < l) {
    add(0, m, root((l + m) * (l - m)));
  }
  if (m == 0) {
    add(1, 1, v);
    add(-1, -1, v);
    return row;
  }
  const int sign = m > 0 ? 1 : -1;
  // The rows of the degree below that the two other rows of the rotation meet.
  const double first = m > 0 ? (m == 1 ? root2 * v : v) : (m == -1 ? 0.0 : v);
  const double second = m > 0 ? (m == 1 ? 0.0 : -v) : (m == -1 ? root2 * v : v);
  add(1, m - sign, first);
  add(-1, sign - m, second);
  if (w != 0) {
    add(1, m + sign, w);
    add(-1, -m - sign, m > 0 ? w : -w);
  }
  return row;
}

// The factor of column m of degree l.
EQUIGEO_HOST_DEVICE double recurrence_column(int l, int m) {
  const int square = m == l || m == -l ? 2 * l * (2 * l - 1) : (l + m) * (l - m);
  return 1 / square_root(static_cast<double>(square));
}

// All of these.
struct Recurrence {
  RecurrenceRow row[kMostDegree + 1][2 * kMostDegree + 1];
  double column[kMostDegree + 1][2 * kMostDegree + 1];

  EQUIGEO_HOST_DEVICE void fill(int l, int m) {
    row[l][l + m] = recurrence_row(l, m);
    column[l][l + m] = recurrence_column(l, m);
  }
};

// Entries of the matrices of all degrees below l.
EQUIGEO_HOST_DEVICE int64_t entries_below(int64_t l) { return l * (4 * l * l - 1) / 3; }

// The largest |m| among the rows of degree l that are needed for rows |m| <= top of all degrees.
EQUIGEO_HOST_DEVICE int64_t last_row(int64_t l, int64_t lmax, int64_t top) {
  return top + lmax - l < l ? top + lmax - l : l;
}

// Rotation of one edge and the inverse of its length, zero where it has none; in float64. What is
// not finite has no direction either, but makes everything NaN.
EQUIGEO_HOST_DEVICE double edge_frame(double x, double y, double z, double rotation[9]) {
  constexpr double kLeast = 1e-280, kMost = 1e280;  // squares of which no sum loses anything
  double square = x * x + y * y + z * z, unit = 1;
  const bool alive = x != 0 || y != 0 || z != 0;
  if (alive && !(square > kLeast && square < kMost)) {  // NaN, too
    const double across = x < 0 ? -x : x, up = y < 0 ? -y : y, along = z < 0 ? -z : z;
    unit = across > up ? across : up;
    unit = along > unit ? along : unit;
    x /= unit;
    y /= unit;
    z /= unit;
    square = x * x + y * y + z * z;
  }
  const double inverse = alive ? 1 / square_root(square) : 0;
  x *= inverse;
  y = alive ? y * inverse : 1;
  z *= inverse;
  const double sign = y >= 0 ? 1 : -1;
  const double k = 1 / (1 + sign * y);
  const double found[9] = {
      1 - k * x * x, -sign * x, -k * x * z, x, y, z, -sign * k * x * z, -z, sign * (1 - k * z * z)};
  __builtin_memcpy(rotation, found, sizeof found);
  return inverse / unit;
}

// One row of the matrix of degree l, for the lanes of a pack, one edge each: numbers of an edge are
// kWidth apart in `rotation`, in the matrix of the degree below and in the line that is written.
template <class Pack, class T>
EQUIGEO_HOST_DEVICE void turned_row(
    const RecurrenceRow& row,
    const double* columns,
    int64_t l,
    const T* rotation,
    const T* below,
    T* line) {
  constexpr int64_t kW = kWidth<Pack, T>;
  const int64_t width = 2 * l + 1, under = 2 * l - 1;
  Pack left[kMostSources] = {}, middle[kMostSources] = {}, right[kMostSources] = {};
  const T* from[kMostSources] = {};
  EQUIGEO_UNROLL
  for (int n = 0; n < kMostSources; ++n) {
    if (n < row.count) {
      const T* three = rotation + 3 * row.rotation[n] * kW;
      const T factor = static_cast<T>(row.factor[n]);
      left[n] = factor * Memory<Pack, T>::load(three);
      middle[n] = factor * Memory<Pack, T>::load(three + kW);
      right[n] = factor * Memory<Pack, T>::load(three + 2 * kW);
      from[n] = below + row.below[n] * under * kW;
    }
  }
  Pack first{}, last{};
  EQUIGEO_UNROLL
  for (int n = 0; n < kMostSources; ++n) {
    if (n < row.count) {
      const Pack low = Memory<Pack, T>::load(from[n]);
      const Pack high = Memory<Pack, T>::load(from[n] + (under - 1) * kW);
      first += right[n] * low + left[n] * high;
      last += right[n] * high - left[n] * low;
    }
  }
  Memory<Pack, T>::store(line, first * static_cast<T>(columns[0]));
  Memory<Pack, T>::store(line + (width - 1) * kW, last * static_cast<T>(columns[width - 1]));
  for (int64_t b = 0; b < under; ++b) {
    Pack sum{};
    EQUIGEO_UNROLL
    for (int n = 0; n < kMostSources; ++n) {
      if (n < row.count) {
        sum += middle[n] * Memory<Pack, T>::load(from[n] + b * kW);
      }
    }
    Memory<Pack, T>::store(line + (b + 1) * kW, sum * static_cast<T>(columns[b + 1]));
  }
}

}  // namespace
}  // namespace equigeo
