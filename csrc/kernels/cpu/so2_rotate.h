// Rows of features into the frames of edges and back, component by component along the channels.
#pragma once

#include "kernels/cpu/components.h"
#include "kernels/cpu/edge_rotations.h"
#include "math/so2_orders.h"

namespace equigeo {
namespace {

// An odd number of cache lines, so that rows do not meet in few sets of a cache.
template <class T>
inline int64_t spread(int64_t width) {
  constexpr int64_t kLine = 64 / sizeof(T);
  const int64_t lines = padded_width(width) / kLine;
  return (lines + 1 - lines % 2) * kLine;
}

// R components of N packs of channels; `d` are rows of a matrix with all lanes of its edges.
template <class Pack, int R, int N, class T>
EQUIGEO_HOST_DEVICE void turn_block(
    const T* d,
    int64_t width,
    const T* x,
    int64_t mul,
    const Component<T>* to,
    const T* const* scale,
    int64_t c) {
  constexpr int kW = kWidth<Pack, T>, kLanes = kWidth<WidePack<T>, T>;
  Pack sum[R][N] = {};
  for (int64_t k = 0; k < width; ++k) {
    Pack sent[N];
    EQUIGEO_UNROLL
    for (int n = 0; n < N; ++n) {
      sent[n] = Memory<Pack, T>::load(x + k * mul + c + n * kW);
    }
    EQUIGEO_UNROLL
    for (int r = 0; r < R; ++r) {
      const T factor = d[(r * width + k) * kLanes];
      EQUIGEO_UNROLL
      for (int n = 0; n < N; ++n) {
        sum[r][n] += factor * sent[n];
      }
    }
  }
  EQUIGEO_UNROLL
  for (int r = 0; r < R; ++r) {
    EQUIGEO_UNROLL
    for (int n = 0; n < N; ++n) {
      Pack value = to[r].sign * sum[r][n];
      if (scale[r] != nullptr) {
        value *= Memory<Pack, T>::load(scale[r] + c + n * kW);
      }
      Memory<Pack, T>::store(to[r].at + c + n * kW, value);
    }
  }
}

// K components of the result, from `rows` components in the frame.
template <class Pack, int K, int N, class T>
EQUIGEO_HOST_DEVICE void turn_back_block(
    const T* d,
    int64_t width,
    int64_t rows,
    const Component<T>* from,
    int64_t mul,
    T* out,
    int64_t c) {
  constexpr int kW = kWidth<Pack, T>, kLanes = kWidth<WidePack<T>, T>;
  Pack sum[K][N];
  EQUIGEO_UNROLL
  for (int k = 0; k < K; ++k) {
    EQUIGEO_UNROLL
    for (int n = 0; n < N; ++n) {
      sum[k][n] = Memory<Pack, T>::load(out + k * mul + c + n * kW);
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    Pack value[N];
    EQUIGEO_UNROLL
    for (int n = 0; n < N; ++n) {
      value[n] = from[r].sign * Memory<Pack, T>::load(from[r].at + c + n * kW);
    }
    EQUIGEO_UNROLL
    for (int k = 0; k < K; ++k) {
      const T factor = d[(r * width + k) * kLanes];
      EQUIGEO_UNROLL
      for (int n = 0; n < N; ++n) {
        sum[k][n] += factor * value[n];
      }
    }
  }
  EQUIGEO_UNROLL
  for (int k = 0; k < K; ++k) {
    EQUIGEO_UNROLL
    for (int n = 0; n < N; ++n) {
      Memory<Pack, T>::store(out + k * mul + c + n * kW, sum[k][n]);
    }
  }
}

// Call take(zero pack, packs, channel) for all channels, in blocks that fit the registers.
template <class T, class Take>
EQUIGEO_HOST_DEVICE void over_channels(int64_t mul, const Take& take) {
  constexpr int64_t kW = kWidth<WidePack<T>, T>;
  int64_t c = 0;
  for (; c + 2 * kW <= mul; c += 2 * kW) {
    take(WidePack<T>{}, Sequence<0, 0>{}, c);
  }
  for (; c + kW <= mul; c += kW) {
    take(WidePack<T>{}, Sequence<0>{}, c);
  }
  for (; c < mul; ++c) {
    take(T{}, Sequence<0>{}, c);
  }
}

template <int... I>
constexpr int length_of(Sequence<I...>) {
  return sizeof...(I);
}

// Call take(channel) for each of the packs of a block.
template <class Pack, class T, int... I, class Take>
EQUIGEO_HOST_DEVICE void each_pack(Sequence<I...> packs, int64_t c, const Take& take) {
  for (int64_t n = 0; n < length_of(packs); ++n) {
    take(c + n * kWidth<Pack, T>);
  }
}

// One term of one edge into its frame, orders up to `top`; factors of copies by order, or null.
template <class T>
inline void turn_term(
    const SO2Term& term,
    const T* d,
    const T* x,
    const Orders<T>& orders,
    int64_t edge,
    int64_t top,
    const T* const* scale) {
  constexpr int kLanes = kWidth<WidePack<T>, T>;
  const int64_t width = 2 * term.l + 1, most = term.l < top ? term.l : top;
  Component<T> to[2 * kMostOrders];
  const T* factor[2 * kMostOrders];
  for (int64_t m = -most; m <= most; ++m) {
    to[most + m] = component_of(orders, term, m, edge);
    factor[most + m] = scale == nullptr ? nullptr : scale[m < 0 ? -m : m];
  }
  const T* first = d + (term.l - most) * width * kLanes;
  const int64_t rows = 2 * most + 1;
  over_channels<T>(term.mul, [&](auto pack, auto packs, int64_t c) {
    using Pack = decltype(pack);
    constexpr int kN = length_of(packs);
    int64_t r = 0;
    for (; r + 5 <= rows; r += 5) {
      turn_block<Pack, 5, kN>(
          first + r * width * kLanes, width, x, term.mul, to + r, factor + r, c);
    }
    for (; r + 3 <= rows; r += 3) {
      turn_block<Pack, 3, kN>(
          first + r * width * kLanes, width, x, term.mul, to + r, factor + r, c);
    }
    for (; r < rows; ++r) {
      turn_block<Pack, 1, kN>(
          first + r * width * kLanes, width, x, term.mul, to + r, factor + r, c);
    }
  });
}

// Add one term of one edge, rotated back, to a row of features.
template <class T>
inline void turn_term_back(
    const SO2Term& term, const T* d, const Orders<T>& orders, int64_t edge, int64_t top, T* out) {
  constexpr int kLanes = kWidth<WidePack<T>, T>;
  const int64_t width = 2 * term.l + 1, most = term.l < top ? term.l : top;
  Component<T> from[2 * kMostOrders];
  for (int64_t m = -most; m <= most; ++m) {
    from[most + m] = component_of(orders, term, m, edge);
  }
  const T* first = d + (term.l - most) * width * kLanes;
  const int64_t rows = 2 * most + 1;
  over_channels<T>(term.mul, [&](auto pack, auto packs, int64_t c) {
    using Pack = decltype(pack);
    constexpr int kN = length_of(packs);
    int64_t k = 0;
    for (; k + 5 <= width; k += 5) {
      turn_back_block<Pack, 5, kN>(
          first + k * kLanes, width, rows, from, term.mul, out + k * term.mul, c);
    }
    for (; k + 3 <= width; k += 3) {
      turn_back_block<Pack, 3, kN>(
          first + k * kLanes, width, rows, from, term.mul, out + k * term.mul, c);
    }
    for (; k < width; ++k) {
      turn_back_block<Pack, 1, kN>(
          first + k * kLanes, width, rows, from, term.mul, out + k * term.mul, c);
    }
  });
}

}  // namespace
}  // namespace equigeo
