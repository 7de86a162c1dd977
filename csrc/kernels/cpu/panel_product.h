// A few rows times a matrix.
#pragma once

#include "kernels/cpu/matrix_tile.h"

namespace equigeo {
namespace {

template <class T, int R>
EQUIGEO_HOST_DEVICE void multiply_rows(
    const T* const* rows, int64_t inner, const T* matrix, int64_t stride, T* out) {
  constexpr int64_t kW = kWidth<WidePack<T>, T>;
  constexpr int kN = kRegisters == 32 ? 3 : 2;  // 8 x 3 of 32 registers, or 4 x 2 of 16
  int64_t c = 0;
  for (; c + kN * kW <= stride; c += kN * kW) {
    matrix_tile<T, R, kN>(VectorsAt<T>{rows}, inner, matrix + c, stride, out + c, false);
  }
  for (; c < stride; c += kW) {
    matrix_tile<T, R, 1>(VectorsAt<T>{rows}, inner, matrix + c, stride, out + c, false);
  }
}

// out[r] = rows[r] @ matrix, (inner, stride), with a stride of whole registers.
template <class T>
inline void multiply_panel(
    const T* const* rows, int64_t count, int64_t inner, const T* matrix, int64_t stride, T* out) {
  constexpr int kRows = kRegisters == 32 ? 8 : 4;
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
