// Features of one segment between the layout of a tensor and the one that kernels work in.
//
// Kernels read component i of channel u at `i * stride + u`, with a stride that is a multiple of
// every register. Where a tensor is like that already it is used in place.
#pragma once

#include "kernels/cpu/exchange.h"

namespace equigeo {

// A segment in the layout of kernels; `data` may be the tensor itself.
template <class T>
struct Components {
  T* data;
  int64_t stride;
};

namespace {

constexpr int64_t kLanes = 16;  // a multiple of the lanes of every register

EQUIGEO_HOST_DEVICE int64_t padded(int64_t channels) {
  return (channels + kLanes - 1) / kLanes * kLanes;
}

// Lane `at` of a shuffle of (so far, next source): take what belongs to source S, else keep.
constexpr int pick(int source, int lane, int at, int s, int width) {
  if (s == 1) {
    return source == 0 ? lane : source == 1 ? width + lane : 0;
  }
  return source == s ? width + lane : at;
}

#ifdef EQUIGEO_HAS_SHUFFLE
// Component I of W channels of D components each, which lie in D packs: element u D + I.
template <class Pack, int D, int I, int S, int W, int... U>
EQUIGEO_HOST_DEVICE Pack pick_component(const Pack* packs, Pack so_far, Sequence<U...> lanes) {
  const Pack next =
      __builtin_shufflevector(so_far, packs[S], pick((U * D + I) / W, (U * D + I) % W, U, S, W)...);
  if constexpr (S + 1 < D) {
    return pick_component<Pack, D, I, S + 1, W>(packs, next, lanes);
  } else {
    return next;
  }
}

// Pack P of W channels with their D components side by side: element f is component f mod D.
template <class Pack, int D, int P, int S, int W, int... U>
EQUIGEO_HOST_DEVICE Pack pick_flat(const Pack* components, Pack so_far, Sequence<U...> lanes) {
  const Pack next = __builtin_shufflevector(
      so_far, components[S], pick((P * W + U) % D, (P * W + U) / D, U, S, W)...);
  if constexpr (S + 1 < D) {
    return pick_flat<Pack, D, P, S + 1, W>(components, next, lanes);
  } else {
    return next;
  }
}

template <class T, int D, int... I>
EQUIGEO_HOST_DEVICE void split_picking(const T* from, T* to, int64_t stride, Sequence<I...>) {
  using Pack = WidePack<T>;
  constexpr int kW = kWidth<Pack, T>;
  const Pack packs[D] = {Memory<Pack, T>::load(from + I * kW)...};
  (Memory<Pack, T>::store(
       to + I * stride,
       pick_component<Pack, D, I, 1, kW>(packs, packs[0], typename Count<kW>::Type())),
   ...);
}

template <class T, int D, int... I>
EQUIGEO_HOST_DEVICE void join_picking(const T* from, int64_t stride, T* to, Sequence<I...>) {
  using Pack = WidePack<T>;
  constexpr int kW = kWidth<Pack, T>;
  const Pack components[D] = {Memory<Pack, T>::load(from + I * stride)...};
  (Memory<Pack, T>::store(
       to + I * kW,
       pick_flat<Pack, D, I, 1, kW>(components, components[0], typename Count<kW>::Type())),
   ...);
}

// Channels of 5 and 7 components are rows of squares of 8 x 8 numbers, of which those behind their
// components are anything: log2(8) exchanges of whole registers, where D (D - 1) picks from two
// registers each take several instructions with AVX2. With AVX-512 a pick is one.
constexpr int kSquare = 8;
template <class T, int D>
constexpr bool kInSquares =
    D > 4 && kWidth<WidePack<T>, T> >= kSquare && (EQUIGEO_PACK_BYTES == 32 || D == 7);

// The last D numbers of a register in front.
template <int D, class Pack, int... Lane>
EQUIGEO_HOST_DEVICE Pack last_in_front(const Pack& pack, Sequence<Lane...>) {
  constexpr int kW = sizeof...(Lane);
  return __builtin_shufflevector(pack, pack, (Lane + kW - D) % kW...);
}

// Every register has a row of each of its squares: channel `square * kSquare + row`.
template <class T, int D, int... Square>
EQUIGEO_HOST_DEVICE void split_squares(const T* from, T* to, int64_t stride, Sequence<Square...>) {
  using Pack = WidePack<T>;
  constexpr int kW = kWidth<Pack, T>;
  using Row = typename PackOf<T, kSquare * sizeof(T)>::Type;
  // Behind the last channel may be nothing that can be read.
  const Row last = last_in_front<D>(
      Memory<Row, T>::load(from + kW * D - kSquare), typename Count<kSquare>::Type());
  Pack rows[kSquare];
  EQUIGEO_UNROLL
  for (int r = 0; r < kSquare; ++r) {
    const Row parts[] = {
        Square * kSquare + r == kW - 1
            ? last
            : Memory<Row, T>::load(from + (Square * kSquare + r) * D)...};
    rows[r] = joined_parts<Pack>(parts);
  }
  transpose_blocks<kSquare / 2>(rows);
  EQUIGEO_UNROLL
  for (int i = 0; i < D; ++i) {
    Memory<Pack, T>::store(to + i * stride, rows[i]);
  }
}

template <class T, int D, int Square, class Pack>
EQUIGEO_HOST_DEVICE void store_square(const Pack (&rows)[kSquare], T* to) {
  using Row = typename PackOf<T, kSquare * sizeof(T)>::Type;
  EQUIGEO_UNROLL
  for (int r = 0; r < kSquare; ++r) {
    const Row row = part_of<Square>(rows[r], typename Count<kSquare>::Type());
    T* channel = to + (Square * kSquare + r) * D;
    if (Square * kSquare + r < kWidth<Pack, T> - 1) {
      Memory<Row, T>::store(channel, row);
    } else {
      __builtin_memcpy(channel, &row, D * sizeof(T));
    }
  }
}

// Rows are stored in ascending order: each covers what the one before has written too much.
template <class T, int D, int... Square>
EQUIGEO_HOST_DEVICE void join_squares(const T* from, int64_t stride, T* to, Sequence<Square...>) {
  using Pack = WidePack<T>;
  Pack rows[kSquare];
  EQUIGEO_UNROLL
  for (int i = 0; i < kSquare; ++i) {
    rows[i] = Memory<Pack, T>::load(from + (i < D ? i : 0) * stride);
  }
  transpose_blocks<kSquare / 2>(rows);
  (store_square<T, D, Square>(rows, to), ...);
}

template <class T, int D>
EQUIGEO_HOST_DEVICE void split_block(const T* from, T* to, int64_t stride) {
  if constexpr (kInSquares<T, D>) {
    constexpr int kSquares = kWidth<WidePack<T>, T> / kSquare;
    split_squares<T, D>(from, to, stride, typename Count<kSquares>::Type());
  } else {
    split_picking<T, D>(from, to, stride, typename Count<D>::Type());
  }
}

template <class T, int D>
EQUIGEO_HOST_DEVICE void join_block(const T* from, int64_t stride, T* to) {
  if constexpr (kInSquares<T, D>) {
    constexpr int kSquares = kWidth<WidePack<T>, T> / kSquare;
    join_squares<T, D>(from, stride, to, typename Count<kSquares>::Type());
  } else {
    join_picking<T, D>(from, stride, to, typename Count<D>::Type());
  }
}
#endif

// Whole registers of channels; returns how many channels are done.
template <class T, int D>
EQUIGEO_HOST_DEVICE int64_t split_blocks(const T* from, int64_t mul, T* to, int64_t stride) {
  int64_t u = 0;
#ifdef EQUIGEO_HAS_SHUFFLE
  constexpr int64_t kW = kWidth<WidePack<T>, T>;
  for (; u + kW <= mul; u += kW) {
    split_block<T, D>(from + u * D, to + u, stride);
  }
#endif
  return u;
}

template <class T, int D>
EQUIGEO_HOST_DEVICE int64_t join_blocks(const T* from, int64_t stride, int64_t mul, T* to) {
  int64_t u = 0;
#ifdef EQUIGEO_HAS_SHUFFLE
  constexpr int64_t kW = kWidth<WidePack<T>, T>;
  for (; u + kW <= mul; u += kW) {
    join_block<T, D>(from + u, stride, to + u * D);
  }
#endif
  return u;
}

template <class T>
EQUIGEO_HOST_DEVICE void copy_row(const T* from, int64_t count, T* to) {
  __builtin_memcpy(to, from, count * sizeof(T));
}

template <class T>
inline void fill_zero(T* row, int64_t count) {
  __builtin_memset(row, 0, count * sizeof(T));
}

// to[i * stride + u] = from[u * d + i]
template <class T>
inline void split_components(const T* from, int64_t mul, int64_t d, T* to, int64_t stride) {
  if (d == 1) {
    return copy_row(from, mul, to);
  }
  int64_t u = d == 3   ? split_blocks<T, 3>(from, mul, to, stride)
              : d == 5 ? split_blocks<T, 5>(from, mul, to, stride)
              : d == 7 ? split_blocks<T, 7>(from, mul, to, stride)
                       : 0;
  for (; u < mul; ++u) {
    for (int64_t i = 0; i < d; ++i) {
      to[i * stride + u] = from[u * d + i];
    }
  }
}

// to[u * d + i] = from[i * stride + u]
template <class T>
inline void join_components(const T* from, int64_t stride, int64_t mul, int64_t d, T* to) {
  if (d == 1) {
    return copy_row(from, mul, to);
  }
  int64_t u = d == 3   ? join_blocks<T, 3>(from, stride, mul, to)
              : d == 5 ? join_blocks<T, 5>(from, stride, mul, to)
              : d == 7 ? join_blocks<T, 7>(from, stride, mul, to)
                       : 0;
  for (; u < mul; ++u) {
    for (int64_t i = 0; i < d; ++i) {
      to[u * d + i] = from[i * stride + u];
    }
  }
}

// Whether a segment of a tensor needs no copy.
EQUIGEO_HOST_DEVICE bool in_place(bool ir_mul, int64_t mul, int64_t d) {
  return (ir_mul || d == 1) && mul % kLanes == 0;
}

template <class T>
inline void fetch(const T* from, bool ir_mul, int64_t mul, int64_t d, T* to, int64_t stride) {
  if (!ir_mul) {
    split_components(from, mul, d, to, stride);
  } else {
    for (int64_t i = 0; i < d; ++i) {
      copy_row(from + i * mul, mul, to + i * stride);
    }
  }
  for (int64_t i = 0; i < d && mul < stride; ++i) {  // padding must not poison sums
    for (int64_t u = mul; u < stride; ++u) {
      to[i * stride + u] = 0;
    }
  }
}

template <class T>
inline void put_back(const T* from, int64_t stride, bool ir_mul, int64_t mul, int64_t d, T* to) {
  if (!ir_mul) {
    join_components(from, stride, mul, d, to);
  } else {
    for (int64_t i = 0; i < d; ++i) {
      copy_row(from + i * stride, mul, to + i * mul);
    }
  }
}

}  // namespace
}  // namespace equigeo
