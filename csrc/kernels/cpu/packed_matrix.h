// Rows times a matrix whose columns are packed in panels, and products of two lists of rows.
#pragma once

#include "kernels/cpu/pack.h"

namespace equigeo {
namespace {

template <class T>
constexpr int64_t kPanel = 2 * kWidth<WidePack<T>, T>;  // columns of a panel: two registers
constexpr int64_t kInner = 256;  // rows of a panel that stay in the nearest cache
// 12 x 2 of 32 registers, or 6 x 2 of 16.
constexpr int kTileRows = kRegisters == 32 ? 12 : 6;

// R rows, `stride` apart, times one panel.
template <class T, int R>
EQUIGEO_HOST_DEVICE void panel_tile(
    const T* rows,
    int64_t stride,
    int64_t inner,
    const T* panel,
    T* out,
    int64_t out_stride,
    bool add) {
  using Pack = WidePack<T>;
  constexpr int kW = kWidth<Pack, T>;
  Pack sum[R][2] = {};
  for (int64_t k = 0; k < inner; ++k) {
    const Pack left = Memory<Pack, T>::load(panel + k * 2 * kW);
    const Pack right = Memory<Pack, T>::load(panel + k * 2 * kW + kW);
    EQUIGEO_UNROLL
    for (int r = 0; r < R; ++r) {
      const T factor = rows[r * stride + k];
      sum[r][0] += factor * left;
      sum[r][1] += factor * right;
    }
  }
  EQUIGEO_UNROLL
  for (int r = 0; r < R; ++r) {
    EQUIGEO_UNROLL
    for (int n = 0; n < 2; ++n) {
      T* to = out + r * out_stride + n * kW;
      Memory<Pack, T>::store(to, add ? Memory<Pack, T>::load(to) + sum[r][n] : sum[r][n]);
    }
  }
}

// out[r] (+)= rows[r] @ matrix, (inner, columns) in panels; `out` has whole panels.
template <class T>
inline void multiply_packed(
    const T* rows,
    int64_t stride,
    int64_t count,
    int64_t inner,
    const T* matrix,
    int64_t columns,
    T* out,
    int64_t out_stride,
    bool add) {
  for (int64_t k = 0; k == 0 || k < inner; k += kInner) {
    const int64_t depth = inner - k < kInner ? inner - k : kInner;
    for (int64_t c = 0; c < columns; c += kPanel<T>) {
      const T* panel = matrix + c * inner + k * kPanel<T>;
      const bool adds = add || k > 0;
      int64_t r = 0;
      for (; r + kTileRows <= count; r += kTileRows) {
        panel_tile<T, kTileRows>(
            rows + r * stride + k, stride, depth, panel, out + r * out_stride + c, out_stride,
            adds);
      }
      for (; r + 3 <= count; r += 3) {
        panel_tile<T, 3>(
            rows + r * stride + k, stride, depth, panel, out + r * out_stride + c, out_stride,
            adds);
      }
      for (; r < count; ++r) {
        panel_tile<T, 1>(
            rows + r * stride + k, stride, depth, panel, out + r * out_stride + c, out_stride,
            adds);
      }
    }
  }
}

// Pack a matrix given by its entries (row, column).
template <class T, class Entry>
inline void pack_panels(int64_t inner, int64_t columns, T* packed, const Entry& entry) {
  for (int64_t c = 0; c < columns; c += kPanel<T>) {
    for (int64_t k = 0; k < inner; ++k) {
      for (int64_t n = c; n < c + kPanel<T>; ++n) {
        *packed++ = n < columns ? entry(k, n) : T(0);
      }
    }
  }
}

// R columns of `left` from which a register pair of columns of `right` is multiplied.
template <class T, int R>
EQUIGEO_HOST_DEVICE void outer_tile(
    const T* left,
    int64_t left_stride,
    const T* right,
    int64_t right_stride,
    int64_t count,
    T* out,
    int64_t out_stride) {
  using Pack = WidePack<T>;
  constexpr int kW = kWidth<Pack, T>;
  Pack sum[R][2] = {};
  for (int64_t e = 0; e < count; ++e) {
    const Pack first = Memory<Pack, T>::load(right + e * right_stride);
    const Pack second = Memory<Pack, T>::load(right + e * right_stride + kW);
    EQUIGEO_UNROLL
    for (int r = 0; r < R; ++r) {
      const T factor = left[e * left_stride + r];
      sum[r][0] += factor * first;
      sum[r][1] += factor * second;
    }
  }
  EQUIGEO_UNROLL
  for (int r = 0; r < R; ++r) {
    EQUIGEO_UNROLL
    for (int n = 0; n < 2; ++n) {
      T* to = out + r * out_stride + n * kW;
      Memory<Pack, T>::store(to, Memory<Pack, T>::load(to) + sum[r][n]);
    }
  }
}

// out (rows, columns) += left^T right, from `count` rows of each; rows of `right` and of `out` have
// whole panels, what is beyond `columns` being zero.
template <class T>
inline void add_outer(
    const T* left,
    int64_t left_stride,
    int64_t rows,
    const T* right,
    int64_t right_stride,
    int64_t columns,
    int64_t count,
    T* out,
    int64_t out_stride) {
  for (int64_t c = 0; c < columns; c += kPanel<T>) {
    int64_t r = 0;
    for (; r + kTileRows <= rows; r += kTileRows) {
      outer_tile<T, kTileRows>(
          left + r, left_stride, right + c, right_stride, count, out + r * out_stride + c,
          out_stride);
    }
    for (; r + 3 <= rows; r += 3) {
      outer_tile<T, 3>(
          left + r, left_stride, right + c, right_stride, count, out + r * out_stride + c,
          out_stride);
    }
    for (; r < rows; ++r) {
      outer_tile<T, 1>(
          left + r, left_stride, right + c, right_stride, count, out + r * out_stride + c,
          out_stride);
    }
  }
}

}  // namespace
}  // namespace equigeo
