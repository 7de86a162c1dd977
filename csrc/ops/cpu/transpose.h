// Rows of a tensor side by side: number c of row l at `c * Lanes + l`.
#pragma once

#include "ops/cpu/components.h"

namespace equigeo {
namespace {

#ifdef EQUIGEO_HAS_SHUFFLE
// Exchange the off-diagonal halves of size H in a square of which these are two rows.
template <class Pack, int H, int... L>
EQUIGEO_HOST_DEVICE void exchange(Pack& upper, Pack& lower, Sequence<L...>) {
  constexpr int kW = sizeof...(L);
  const Pack a = upper, b = lower;
  upper = __builtin_shufflevector(a, b, (L & H ? kW + L - H : L)...);
  lower = __builtin_shufflevector(a, b, (L & H ? kW + L : L + H)...);
}

template <class Pack, int W, int H = W / 2>
EQUIGEO_HOST_DEVICE void transpose(Pack* rows) {
  EQUIGEO_UNROLL
  for (int r = 0; r < W; ++r) {
    if ((r & H) == 0) {
      exchange<Pack, H>(rows[r], rows[r + H], typename Count<W>::Type());
    }
  }
  if constexpr (H > 1) {
    transpose<Pack, W, H / 2>(rows);
  }
}

template <class Pack, int W, int H = W / 2>
EQUIGEO_HOST_DEVICE Pack fold(Pack* rows) {
  EQUIGEO_UNROLL
  for (int r = 0; r < H; ++r) {
    exchange<Pack, H>(rows[r], rows[r + H], typename Count<W>::Type());
    rows[r] += rows[r + H];
  }
  if constexpr (H > 1) {
    return fold<Pack, W, H / 2>(rows);
  } else {
    return rows[0];
  }
}

// to[i * to_stride + l] = from[l * from_stride + i] for a square of registers.
template <class T>
EQUIGEO_HOST_DEVICE void transpose_square(
    const T* from, int64_t from_stride, T* to, int64_t to_stride) {
  using Pack = WidePack<T>;
  constexpr int kW = kWidth<Pack, T>;
  Pack rows[kW];
  EQUIGEO_UNROLL
  for (int r = 0; r < kW; ++r) {
    rows[r] = Memory<Pack, T>::load(from + r * from_stride);
  }
  transpose<Pack, kW>(rows);
  EQUIGEO_UNROLL
  for (int r = 0; r < kW; ++r) {
    Memory<Pack, T>::store(to + r * to_stride, rows[r]);
  }
}
#endif

// Lane n is the sum of the lanes of register n, of as many registers as lanes; these are lost.
template <class T>
EQUIGEO_HOST_DEVICE WidePack<T> sum_each(WidePack<T>* registers) {
  constexpr int kW = kWidth<WidePack<T>, T>;
#ifdef EQUIGEO_HAS_SHUFFLE
  return fold<WidePack<T>, kW>(registers);
#else
  WidePack<T> sums;
  for (int n = 0; n < kW; ++n) {
    sums[n] = sum_lanes<T, EQUIGEO_PACK_BYTES>(registers[n]);
  }
  return sums;
#endif
}

// to[i * to_stride + l] = from[l * from_stride + i] for `rows` l and `columns` i. Squares at the
// ends overlap the ones before them.
template <class T>
inline void transpose_block(
    const T* from, int64_t rows, int64_t columns, int64_t from_stride, T* to, int64_t to_stride) {
#ifdef EQUIGEO_HAS_SHUFFLE
  constexpr int64_t kW = kWidth<WidePack<T>, T>;
  if (rows >= kW && columns >= kW) {
    for (int64_t i = 0; i < columns; i += kW) {
      const int64_t column = i + kW <= columns ? i : columns - kW;
      for (int64_t l = 0; l < rows; l += kW) {
        const int64_t row = l + kW <= rows ? l : rows - kW;
        transpose_square(
            from + row * from_stride + column, from_stride, to + column * to_stride + row,
            to_stride);
      }
    }
    return;
  }
#endif
  for (int64_t l = 0; l < rows; ++l) {
    for (int64_t i = 0; i < columns; ++i) {
      to[i * to_stride + l] = from[l * from_stride + i];
    }
  }
}

// The same for rows that may be shorter than a register: reads up to `readable` numbers and writes
// `padded(columns)` rows.
template <class T>
inline void transpose_rows(
    const T* from,
    int64_t rows,
    int64_t columns,
    int64_t from_stride,
    int64_t readable,
    T* to,
    int64_t to_stride) {
#ifdef EQUIGEO_HAS_SHUFFLE
  constexpr int64_t kW = kWidth<WidePack<T>, T>;
  if (columns < kW && rows >= kW && (rows - 1) * from_stride + kW <= readable) {
    columns = kW;
  }
#endif
  transpose_block(from, rows, columns, from_stride, to, to_stride);
}

}  // namespace
}  // namespace equigeo
