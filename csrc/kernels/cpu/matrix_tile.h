// Many vectors times a matrix with padded rows, in tiles that stay in registers.
//
// Vectors give element h of vector r as (r, h), and those from the n-th on as from(n).
#pragma once

#include "kernels/cpu/pack.h"

namespace equigeo {
namespace {

// Vectors at places of their own.
template <class T>
struct VectorsAt {
  const T* const* at;

  T operator()(int64_t r, int64_t h) const { return at[r][h]; }
  VectorsAt from(int64_t n) const { return {at + n}; }
};

// The rows of an array.
template <class T>
struct RowVectors {
  const T* first;
  int64_t stride;

  T operator()(int64_t r, int64_t h) const { return first[r * stride + h]; }
  RowVectors from(int64_t n) const { return {first + n * stride, stride}; }
};

// The columns of an array.
template <class T>
struct ColumnVectors {
  const T* first;
  int64_t stride;

  T operator()(int64_t r, int64_t h) const { return first[h * stride + r]; }
  ColumnVectors from(int64_t n) const { return {first + n, stride}; }
};

// R vectors times N registers of columns, added to what is there if `add`.
template <class T, int R, int N, class Vectors>
EQUIGEO_HOST_DEVICE void matrix_tile(
    const Vectors& vectors, int64_t inner, const T* matrix, int64_t stride, T* out, bool add) {
  using Pack = WidePack<T>;
  constexpr int kW = kWidth<Pack, T>;
  Pack sum[R][N] = {};
  for (int64_t h = 0; h < inner; ++h) {
    Pack column[N];
    EQUIGEO_UNROLL
    for (int n = 0; n < N; ++n) {
      column[n] = Memory<Pack, T>::load(matrix + h * stride + n * kW);
    }
    EQUIGEO_UNROLL
    for (int r = 0; r < R; ++r) {
      EQUIGEO_UNROLL
      for (int n = 0; n < N; ++n) {
        sum[r][n] += vectors(r, h) * column[n];
      }
    }
  }
  EQUIGEO_UNROLL
  for (int r = 0; r < R; ++r) {
    EQUIGEO_UNROLL
    for (int n = 0; n < N; ++n) {
      T* to = out + r * stride + n * kW;
      Memory<Pack, T>::store(to, add ? Memory<Pack, T>::load(to) + sum[r][n] : sum[r][n]);
    }
  }
}

// N registers of columns for all vectors: the panel of the matrix stays in the nearest cache.
template <class T, int N, class Vectors>
inline void matrix_panel(
    const Vectors& vectors,
    int64_t count,
    int64_t inner,
    const T* matrix,
    int64_t stride,
    T* out,
    bool add) {
  constexpr int kR = kRegisters == 32 ? 8 : 6;  // 8 x 3 of 32 registers, or 6 x 2 of 16
  int64_t r = 0;
  for (; r + kR <= count; r += kR) {
    matrix_tile<T, kR, N>(vectors.from(r), inner, matrix, stride, out + r * stride, add);
  }
  for (; r + 3 <= count; r += 3) {
    matrix_tile<T, 3, N>(vectors.from(r), inner, matrix, stride, out + r * stride, add);
  }
  for (; r < count; ++r) {
    matrix_tile<T, 1, N>(vectors.from(r), inner, matrix, stride, out + r * stride, add);
  }
}

// out[r] = vectors(r, :) @ matrix, (inner, stride), with a stride of whole registers.
template <class T, class Vectors>
inline void multiply_matrix(
    const Vectors& vectors,
    int64_t count,
    int64_t inner,
    const T* matrix,
    int64_t stride,
    T* out,
    bool add) {
  constexpr int64_t kW = kWidth<WidePack<T>, T>;
  int64_t c = 0;
  if constexpr (kRegisters == 32) {
    for (; stride - c == 3 * kW || stride - c > 4 * kW; c += 3 * kW) {
      matrix_panel<T, 3>(vectors, count, inner, matrix + c, stride, out + c, add);
    }
  }
  for (; c + 2 * kW <= stride; c += 2 * kW) {
    matrix_panel<T, 2>(vectors, count, inner, matrix + c, stride, out + c, add);
  }
  for (; c < stride; c += kW) {
    matrix_panel<T, 1>(vectors, count, inner, matrix + c, stride, out + c, add);
  }
}

}  // namespace
}  // namespace equigeo
