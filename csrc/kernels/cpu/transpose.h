// Rows of numbers, one row per lane of a pack, and their columns, one pack each.
//
// Kernels that compute one row of a tensor in each lane find number j of all rows in the pack at
// `columns + j * stride`, with a stride of W, or more where rows are in several packs. There is
// room for `padded_columns` packs, so that blocks of W are whole.
#pragma once

#include "kernels/cpu/components.h"

namespace equigeo {
namespace {

#ifdef EQUIGEO_HAS_SHUFFLE
// Of W registers with W lanes each.
template <class Pack, int W>
EQUIGEO_HOST_DEVICE void transpose(Pack (&rows)[W]) {
  transpose_blocks<W / 2>(rows);
}

// Lane `lane` of two of four rows, of W lanes each, in blocks of four lanes: the low or high half
// of either block, element by element or one behind the other.
constexpr int interleaved(int lane, bool high, int w) {
  return lane / 4 * 4 + (high ? 2 : 0) + lane % 4 / 2 + (lane % 2 == 0 ? 0 : w);
}
constexpr int joined(int lane, bool high, int w) {
  return lane / 4 * 4 + (high ? 2 : 0) + lane % 2 + (lane % 4 < 2 ? 0 : w);
}

template <class Pack, int... Lane>
EQUIGEO_HOST_DEVICE void transpose_fours(Pack (&rows)[4], Sequence<Lane...>) {
  constexpr int kW = sizeof...(Lane);
  const Pack low[] = {
      __builtin_shufflevector(rows[0], rows[1], interleaved(Lane, false, kW)...),
      __builtin_shufflevector(rows[2], rows[3], interleaved(Lane, false, kW)...)};
  const Pack high[] = {
      __builtin_shufflevector(rows[0], rows[1], interleaved(Lane, true, kW)...),
      __builtin_shufflevector(rows[2], rows[3], interleaved(Lane, true, kW)...)};
  rows[0] = __builtin_shufflevector(low[0], low[1], joined(Lane, false, kW)...);
  rows[1] = __builtin_shufflevector(low[0], low[1], joined(Lane, true, kW)...);
  rows[2] = __builtin_shufflevector(high[0], high[1], joined(Lane, false, kW)...);
  rows[3] = __builtin_shufflevector(high[0], high[1], joined(Lane, true, kW)...);
}

// Rows of four numbers are parts of a register. With AVX2 a pick from two is several instructions.
template <class T>
EQUIGEO_HOST_DEVICE void join_fours(const T* columns, int64_t stride, T* rows) {
  using Pack = WidePack<T>;
  using Row = typename PackOf<T, 4 * sizeof(T)>::Type;
  constexpr int kW = kWidth<Pack, T>, kRows = kW / 4;
  Pack parts[4];
  EQUIGEO_UNROLL
  for (int i = 0; i < 4; ++i) {
    parts[i] = Memory<Pack, T>::load(columns + i * stride);
  }
  transpose_fours(parts, typename Count<kW>::Type());
  EQUIGEO_UNROLL
  for (int i = 0; i < 4; ++i) {
    Row split[kRows];
    __builtin_memcpy(split, &parts[i], sizeof(Pack));
    EQUIGEO_UNROLL
    for (int part = 0; part < kRows; ++part) {
      Memory<Row, T>::store(rows + 4 * (4 * part + i), split[part]);
    }
  }
}

// Add what ever smaller blocks exchange, until one row of sums is left.
template <int H, class Pack, int W>
EQUIGEO_HOST_DEVICE void add_blocks(Pack (&rows)[W]) {
  if constexpr (H > 0) {
    EQUIGEO_UNROLL
    for (int i = 0; i < H; ++i) {
      exchange<H>(rows[i], rows[i + H], typename Count<W>::Type());
      rows[i] += rows[i + H];
    }
    add_blocks<H / 2>(rows);
  }
}

// Lane i is the sum of the lanes of row i; the rows are lost.
template <class Pack, int W>
EQUIGEO_HOST_DEVICE Pack sum_each(Pack (&rows)[W]) {
  add_blocks<W / 2>(rows);
  return rows[0];
}
#else
template <class Pack, int W>
inline void transpose(Pack (&rows)[W]) {
  for (int i = 0; i < W; ++i) {
    for (int j = 0; j < i; ++j) {
      const auto swapped = rows[i][j];
      rows[i][j] = rows[j][i];
      rows[j][i] = swapped;
    }
  }
}

template <class Pack, int W>
inline Pack sum_each(Pack (&rows)[W]) {
  transpose(rows);
  for (int i = 1; i < W; ++i) {
    rows[0] += rows[i];
  }
  return rows[0];
}
#endif

template <class T>
EQUIGEO_HOST_DEVICE int64_t padded_columns(int64_t dim) {
  constexpr int64_t kW = kWidth<WidePack<T>, T>;
  return (dim + kW - 1) / kW * kW;
}

// Few columns are cheaper to pick from the rows, D (D - 1) shuffles instead of W log2(W).
template <class T, int D>
EQUIGEO_HOST_DEVICE bool split_few(
    const T* rows, int64_t dim, int64_t count, T* columns, int64_t stride) {
  constexpr int64_t kW = kWidth<WidePack<T>, T>;
  return dim == D && count == kW && split_blocks<T, D>(rows, kW, columns, stride) == kW;
}

template <class T, int D>
EQUIGEO_HOST_DEVICE bool join_few(
    const T* columns, int64_t stride, int64_t dim, int64_t count, T* rows) {
  constexpr int64_t kW = kWidth<WidePack<T>, T>;
  if (dim != D || count != kW) {
    return false;
  }
#ifdef EQUIGEO_HAS_SHUFFLE
  if constexpr (D == 4 && EQUIGEO_PACK_BYTES == 32) {
    join_fours(columns, stride, rows);
    return true;
  }
#endif
  return join_blocks<T, D>(columns, stride, kW, rows) == kW;
}

// The first `count` of W rows of `dim` numbers, side by side in a tensor, as `dim` columns; other
// lanes are zero. The tensor has `beyond` numbers behind the rows, which may be read.
template <class T>
inline void load_columns(
    const T* rows,
    int64_t dim,
    int64_t count,
    int64_t beyond,
    T* columns,
    int64_t stride = kWidth<WidePack<T>, T>) {
  using Pack = WidePack<T>;
  constexpr int kW = kWidth<Pack, T>;
  if (split_few<T, 3>(rows, dim, count, columns, stride) ||
      split_few<T, 4>(rows, dim, count, columns, stride)) {
    return;
  }
  for (int64_t j = 0; j < dim; j += kW) {
    const int64_t width = dim - j < kW ? dim - j : kW;
    Pack block[kW];
    if (count == kW && (width == kW || beyond >= kW)) {
      EQUIGEO_UNROLL
      for (int i = 0; i < kW; ++i) {
        block[i] = Memory<Pack, T>::load(rows + i * dim + j);
      }
    } else {
      T padded_rows[kW * kW] = {};
      for (int64_t i = 0; i < count; ++i) {
        copy_row(rows + i * dim + j, width, padded_rows + i * kW);
      }
      EQUIGEO_UNROLL
      for (int i = 0; i < kW; ++i) {
        block[i] = Memory<Pack, T>::load(padded_rows + i * kW);
      }
    }
    transpose(block);
    EQUIGEO_UNROLL
    for (int i = 0; i < kW; ++i) {
      Memory<Pack, T>::store(columns + (j + i) * stride, block[i]);
    }
  }
}

// The way back. Of the `beyond` numbers behind the rows some may be overwritten, so rows must be
// stored in ascending order.
template <class T>
inline void store_rows(
    const T* columns,
    int64_t dim,
    int64_t count,
    int64_t beyond,
    T* rows,
    int64_t stride = kWidth<WidePack<T>, T>) {
  using Pack = WidePack<T>;
  constexpr int kW = kWidth<Pack, T>;
  if (join_few<T, 3>(columns, stride, dim, count, rows) ||
      join_few<T, 4>(columns, stride, dim, count, rows)) {
    return;
  }
  // What the last block writes too much belongs to the next rows, whose turn comes later.
  for (int64_t j = padded_columns<T>(dim) - kW; j >= 0; j -= kW) {
    const int64_t width = dim - j < kW ? dim - j : kW;
    Pack block[kW];
    EQUIGEO_UNROLL
    for (int i = 0; i < kW; ++i) {
      block[i] = Memory<Pack, T>::load(columns + (j + i) * stride);
    }
    transpose(block);
    if (count == kW && (width == kW || beyond >= kW)) {
      EQUIGEO_UNROLL
      for (int i = 0; i < kW; ++i) {
        Memory<Pack, T>::store(rows + i * dim + j, block[i]);
      }
    } else {
      T padded_rows[kW * kW];
      EQUIGEO_UNROLL
      for (int i = 0; i < kW; ++i) {
        Memory<Pack, T>::store(padded_rows + i * kW, block[i]);
      }
      for (int64_t i = 0; i < count; ++i) {
        copy_row(padded_rows + i * kW, width, rows + i * dim + j);
      }
    }
  }
}

}  // namespace
}  // namespace equigeo
