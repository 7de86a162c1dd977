// Features of one segment between the layout of a tensor and the one that kernels work in.
//
// Kernels read component i of channel u at `i * stride + u`, with a stride that is a multiple of
// every register. Where a tensor is like that already it is used in place.
#pragma once

#include "kernels/cpu/pack.h"

namespace equigeo {
namespace {

constexpr int64_t kLanes = 16;  // a multiple of the lanes of every register

EQUIGEO_HOST_DEVICE int64_t padded(int64_t channels) {
  return (channels + kLanes - 1) / kLanes * kLanes;
}

template <int...>
struct Sequence {};
template <int N, int... I>
struct Count : Count<N - 1, N - 1, I...> {};
template <int... I>
struct Count<0, I...> {
  using Type = Sequence<I...>;
};

// Lane `at` of a shuffle of (so far, next source): take what belongs to source S, else keep.
constexpr int pick(int source, int lane, int at, int s, int width) {
  if (s == 1) {
    return source == 0 ? lane : source == 1 ? width + lane : 0;
  }
  return source == s ? width + lane : at;
}

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define EQUIGEO_HAS_SHUFFLE
#endif
#endif

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
EQUIGEO_HOST_DEVICE void split_block(const T* from, T* to, int64_t stride, Sequence<I...>) {
  using Pack = WidePack<T>;
  constexpr int kW = kWidth<Pack, T>;
  const Pack packs[D] = {Memory<Pack, T>::load(from + I * kW)...};
  (Memory<Pack, T>::store(
       to + I * stride,
       pick_component<Pack, D, I, 1, kW>(packs, packs[0], typename Count<kW>::Type())),
   ...);
}

template <class T, int D, int... I>
EQUIGEO_HOST_DEVICE void join_block(const T* from, int64_t stride, T* to, Sequence<I...>) {
  using Pack = WidePack<T>;
  constexpr int kW = kWidth<Pack, T>;
  const Pack components[D] = {Memory<Pack, T>::load(from + I * stride)...};
  (Memory<Pack, T>::store(
       to + I * kW,
       pick_flat<Pack, D, I, 1, kW>(components, components[0], typename Count<kW>::Type())),
   ...);
}
#endif

// Whole registers of channels; returns how many channels are done.
template <class T, int D>
EQUIGEO_HOST_DEVICE int64_t split_blocks(const T* from, int64_t mul, T* to, int64_t stride) {
  int64_t u = 0;
#ifdef EQUIGEO_HAS_SHUFFLE
  constexpr int64_t kW = kWidth<WidePack<T>, T>;
  for (; u + kW <= mul; u += kW) {
    split_block<T, D>(from + u * D, to + u, stride, typename Count<D>::Type());
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
    join_block<T, D>(from + u, stride, to + u * D, typename Count<D>::Type());
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

// A segment in the layout of kernels; `data` may be the tensor itself.
template <class T>
struct Components {
  T* data;
  int64_t stride;
};

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
