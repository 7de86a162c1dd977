// A few rows times a matrix.
#pragma once

#include "kernels/cpu/pack.h"

namespace equigeo {
namespace {

// out[r] = rows[r] @ matrix for R rows and N registers of columns, which stay in registers.
template <class T, int R, int N>
EQUIGEO_HOST_DEVICE void multiply_tile(
    const T* const* rows, int64_t inner, const T* matrix, int64_t stride, T* out) {
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
        sum[r][n] += rows[r][h] * column[n];
      }
    }
  }
  EQUIGEO_UNROLL
  for (int r = 0; r < R; ++r) {
    EQUIGEO_UNROLL
    for (int n = 0; n < N; ++n) {
      Memory<Pack, T>::store(out + r * stride + n * kW, sum[r][n]);
    }
  }
}

template <class T, int R>
EQUIGEO_HOST_DEVICE void multiply_rows(
    const T* const* rows, int64_t inner, const T* matrix, int64_t stride, T* out) {
  constexpr int64_t kW = kWidth<WidePack<T>, T>;
  constexpr int kN = EQUIGEO_PACK_BYTES == 64 ? 3 : 2;  // 8 x 3 of 32 registers, or 4 x 2 of 16
  int64_t c = 0;
  for (; c + kN * kW <= stride; c += kN * kW) {
    multiply_tile<T, R, kN>(rows, inner, matrix + c, stride, out + c);
  }
  for (; c < stride; c += kW) {
    multiply_tile<T, R, 1>(rows, inner, matrix + c, stride, out + c);
  }
}

// out[r] = rows[r] @ matrix, (inner, stride), with a stride of whole registers.
template <class T>
inline void multiply_panel(
    const T* const* rows, int64_t count, int64_t inner, const T* matrix, int64_t stride, T* out) {
  constexpr int kRows = EQUIGEO_PACK_BYTES == 64 ? 8 : 4;
  int64_t r = 0;
  for (; r + kRows <= count; r += kRows) {
    multiply_rows<T, kRows>(rows + r, inner, matrix, stride, out + r * stride);
  }
  for (; r < count; ++r) {
    multiply_rows<T, 1>(rows + r, inner, matrix, stride, out + r * stride);
  }
}

}  // namespace
}  // namespace equigeo
