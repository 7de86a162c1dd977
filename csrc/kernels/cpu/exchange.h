// Registers that exchange blocks of lanes, of which transposes are made.
#pragma once

#include "kernels/cpu/pack.h"

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define EQUIGEO_HAS_SHUFFLE
#endif
#endif

namespace equigeo {
namespace {

template <int...>
struct Sequence {};
template <int N, int... I>
struct Count : Count<N - 1, N - 1, I...> {};
template <int... I>
struct Count<0, I...> {
  using Type = Sequence<I...>;
};

#ifdef EQUIGEO_HAS_SHUFFLE
template <class Pack>
constexpr int kLanesOf = kWidth<Pack, typename Lanes<Pack>::Scalar>;

// Lane `lane` of rows a and b, of W lanes each, after they exchanged blocks of H lanes: row a has
// the even blocks of both, row b the odd ones.
constexpr int exchanged(int lane, int h, int w, bool second) {
  const int from = second ? lane | h : lane & ~h;
  return (lane & h) != 0 ? w + from : from;
}

template <int H, class Pack, int... Lane>
EQUIGEO_HOST_DEVICE void exchange(Pack& a, Pack& b, Sequence<Lane...>) {
  constexpr int kW = sizeof...(Lane);
  const Pack even = __builtin_shufflevector(a, b, exchanged(Lane, H, kW, false)...);
  b = __builtin_shufflevector(a, b, exchanged(Lane, H, kW, true)...);
  a = even;
}

// Transpose the C x C numbers that every C lanes of C registers hold, exchanging ever smaller
// blocks, of H lanes and less.
template <int H, class Pack, int C>
EQUIGEO_HOST_DEVICE void transpose_blocks(Pack (&rows)[C]) {
  if constexpr (H > 0) {
    EQUIGEO_UNROLL
    for (int i = 0; i < C; ++i) {
      if ((i & H) == 0) {
        exchange<H>(rows[i], rows[i + H], typename Count<kLanesOf<Pack>>::Type());
      }
    }
    transpose_blocks<H / 2>(rows);
  }
}

// Part `Part` of a register, of as many lanes as the sequence has.
template <int Part, class Pack, int... Lane>
EQUIGEO_HOST_DEVICE auto part_of(const Pack& pack, Sequence<Lane...>) {
  constexpr int kC = sizeof...(Lane);
  if constexpr (kC == kLanesOf<Pack>) {
    return pack;
  } else {
    return __builtin_shufflevector(pack, pack, Part * kC + Lane...);
  }
}

template <class Half, int... Lane>
EQUIGEO_HOST_DEVICE auto joined_halves(const Half& a, const Half& b, Sequence<Lane...>) {
  return __builtin_shufflevector(a, b, Lane...);
}

// The register of which these are the parts, in their order.
template <class Pack, class Part, int N>
EQUIGEO_HOST_DEVICE Pack joined_parts(const Part (&parts)[N]) {
  if constexpr (N == 1) {
    return parts[0];
  } else {
    using Lanes2 = typename Count<2 * kLanesOf<Part>>::Type;
    decltype(joined_halves(parts[0], parts[0], Lanes2())) pairs[N / 2];
    EQUIGEO_UNROLL
    for (int n = 0; n < N / 2; ++n) {
      pairs[n] = joined_halves(parts[2 * n], parts[2 * n + 1], Lanes2());
    }
    return joined_parts<Pack>(pairs);
  }
}
#endif

}  // namespace
}  // namespace equigeo
