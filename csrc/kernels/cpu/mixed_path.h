// One path of a fully connected product, for all channels of one row, forward and backward.
//
// Couplings and the channels of the output are in the layout of kernels (see components.h); weights
// are read from the tensor, in registers that may reach over the end of a row of them.
#pragma once

#include "kernels/cpu/edge_product.h"
#include "kernels/cpu/transpose.h"
#include "math/channel_mixing.h"

namespace equigeo {
namespace {

template <class T>
constexpr int64_t kLane = kWidth<WidePack<T>, T>;

// Call run.template with<N>(channel) for blocks of N registers that hold `channels`, last one
// first.
template <int Most, class T, class Run>
EQUIGEO_HOST_DEVICE void for_registers(int64_t channels, const Run& run) {
  int64_t left = (channels + kLane<T> - 1) / kLane<T>;
  while (left > 0) {
    const int64_t count = left % Most > 0 ? left % Most : Most;
    left -= count;
    switch (count) {
      case 1:
        run.template with<1>(left * kLane<T>);
        break;
      case 2:
        run.template with<2>(left * kLane<T>);
        break;
      case 3:
        run.template with<3>(left * kLane<T>);
        break;
      default:
        run.template with<4>(left * kLane<T>);
    }
  }
}

// Registers of channels that fit beside D components of them.
template <int D>
constexpr int kMostRegisters = kRegisters == 32 ? (D <= 5    ? 4
                                                   : D <= 7  ? 3
                                                   : D <= 11 ? 2
                                                             : 1)
                                                : (D <= 3   ? 4
                                                   : D <= 5 ? 2
                                                            : 1);

// A path of one row: its couplings, its weights and the channels of its output.
template <class T>
struct MixedPath {
  Couplings size;
  const T* couplings;
  const T* weight;
  int64_t mul3, out_step;
  T* out;

  template <int D>
  void with() const {
    for_registers<kMostRegisters<D>, T>(mul3, Blocks<D>{*this});
  }

  template <int D>
  struct Blocks {
    const MixedPath& path;

    template <int N>
    EQUIGEO_HOST_DEVICE void with(int64_t w) const {
      mix_channels<WidePack<T>, D, N>(
          path.couplings, path.size, path.weight + w, path.mul3, path.out + w, path.out_step);
    }
  };
};

// Gradients of the couplings and of the weights; null pointers are not wanted.
template <class T>
struct MixedGradients {
  Couplings size;
  const T* couplings;
  const T* weight;
  int64_t mul3, grad_step;
  const T* grad;
  T* grad_couplings;  // added to
  T* grad_weight;
  T* slopes;  // for one register of channels u, each a register

  template <int D>
  void with() const {
    for_registers<kMostRegisters<D>, T>(mul3, Blocks<D>{*this});
  }

  template <int D>
  struct Blocks {
    const MixedGradients& path;

    template <int N>
    EQUIGEO_HOST_DEVICE void with(int64_t w) const {
      path.template block<D, N>(w);
    }
  };

  template <int D, int N>
  void block(int64_t w) const {
    const ArrivingGradient<WidePack<T>, D, N, T> arriving(grad + w, grad_step);
    for (int64_t u = 0; u < size.mul && grad_couplings != nullptr; u += kLane<T>) {
      channels<D>(arriving, u, w);
    }
    if (grad_weight != nullptr) {
      weights<N>(arriving, w);
    }
  }

  template <int N, class Arriving>
  EQUIGEO_HOST_DEVICE void weights(const Arriving& arriving, int64_t w) const {
    // Registers may reach over the end of a row of weights: rows are written in order, the last
    // columns before the first, so that what is written too much is written again.
    const int64_t end = size.mul * size.mul2 * mul3;
    int64_t place = w;
    for (int64_t u = 0; u < size.mul; ++u) {
      for (int64_t v = 0; v < size.mul2; ++v, place += mul3) {
        const T* coupling = couplings + v * size.v_step + u;
        if (place + N * kLane<T> <= end) {
          arriving.weights(coupling, size.k_step, grad_weight + place);
          continue;
        }
        T last[N * kLane<T>];
        arriving.weights(coupling, size.k_step, last);
        copy_row(last, mul3 - w < N * kLane<T> ? mul3 - w : N * kLane<T>, grad_weight + place);
      }
    }
  }

  // Gradients of the couplings of a register of channels.
  template <int D, class Arriving>
  EQUIGEO_HOST_DEVICE void channels(const Arriving& arriving, int64_t first, int64_t w) const {
    constexpr int64_t kW = kLane<T>;
    const int64_t left = size.mul - first, count = left < kW ? left : kW;
    const T* row = weight + first * size.mul2 * mul3 + w;
    for (int64_t u = 0; u < count; ++u) {
      for (int64_t v = 0; v < size.mul2; ++v, row += mul3) {
        arriving.couplings(row, slopes + (v * D * kW + u) * kW, kW * kW);
      }
    }
    for (int64_t v = 0; v < size.mul2; ++v) {
      for (int64_t k = 0; k < D; ++k) {
        T* into = grad_couplings + v * size.v_step + k * size.k_step + first;
        add_sums(slopes + (v * D + k) * kW * kW, count, into);
      }
    }
  }

  // Add the lanes of each register to a number; up to as many registers as lanes.
  static EQUIGEO_HOST_DEVICE void add_sums(T* registers, int64_t count, T* into) {
    using Pack = WidePack<T>;
    constexpr int64_t kW = kLane<T>, kFew = 4;
    if (count <= kFew) {
      for (int64_t n = 0; n < count; ++n) {
        into[n] += sum_lanes<T, EQUIGEO_PACK_BYTES>(Memory<Pack, T>::load(registers + n * kW));
      }
      return;
    }
    fill_zero(registers + count * kW, (kW - count) * kW);
    Pack packs[kW];
    EQUIGEO_UNROLL
    for (int n = 0; n < kW; ++n) {
      packs[n] = Memory<Pack, T>::load(registers + n * kW);
    }
    Memory<Pack, T>::store(into, Memory<Pack, T>::load(into) + sum_each(packs));
  }
};

}  // namespace
}  // namespace equigeo
