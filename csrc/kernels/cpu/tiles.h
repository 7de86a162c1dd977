// Splitting channels of many components, in square tiles of the smallest register.
#pragma once

#include "kernels/cpu/components.h"

namespace equigeo {
namespace {

#ifdef EQUIGEO_HAS_SHUFFLE
EQUIGEO_HOST_DEVICE void transpose_tile(const float* from, int64_t stride, float* to, int64_t out) {
  using Pack = NarrowPack<float>;
  using At = Memory<Pack, float>;
  const Pack a = At::load(from), b = At::load(from + stride);
  const Pack c = At::load(from + 2 * stride), d = At::load(from + 3 * stride);
  const Pack ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Pack cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Pack ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Pack cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  At::store(to, __builtin_shufflevector(ab, cd, 0, 1, 4, 5));
  At::store(to + out, __builtin_shufflevector(ab, cd, 2, 3, 6, 7));
  At::store(to + 2 * out, __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5));
  At::store(to + 3 * out, __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7));
}

EQUIGEO_HOST_DEVICE void transpose_tile(
    const double* from, int64_t stride, double* to, int64_t out) {
  using Pack = NarrowPack<double>;
  using At = Memory<Pack, double>;
  const Pack a = At::load(from), b = At::load(from + stride);
  At::store(to, __builtin_shufflevector(a, b, 0, 2));
  At::store(to + out, __builtin_shufflevector(a, b, 1, 3));
}
#endif

// to[i * out + j] = from[j * stride + i] for i < rows and j < columns
template <class T>
inline void transpose(
    const T* from, int64_t stride, int64_t rows, int64_t columns, T* to, int64_t out) {
  int64_t whole_rows = 0, whole_columns = 0;
#ifdef EQUIGEO_HAS_SHUFFLE
  constexpr int64_t kTile = kWidth<NarrowPack<T>, T>;
  whole_rows = rows / kTile * kTile;
  whole_columns = columns / kTile * kTile;
  for (int64_t j = 0; j < whole_columns; j += kTile) {
    for (int64_t i = 0; i < whole_rows; i += kTile) {
      transpose_tile(from + j * stride + i, stride, to + i * out + j, out);
    }
  }
#endif
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t i = j < whole_columns ? whole_rows : 0; i < rows; ++i) {
      to[i * out + j] = from[j * stride + i];
    }
  }
}

}  // namespace
}  // namespace equigeo
