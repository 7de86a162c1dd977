// Compiled once per instruction set: no torch, no C++ standard headers.
#include "kernels/cpu/mixed_path.h"

#include "kernels/cpu/transpose.h"

namespace equigeo {
namespace {

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

template <class T>
struct Mixed {
  const MixedPath<T>& path;

  template <int D>
  void with() const {
    for_registers<kMostRegisters<D>, T>(path.mul3, Blocks<D>{path});
  }

  template <int D>
  struct Blocks {
    const MixedPath<T>& path;

    template <int N>
    EQUIGEO_HOST_DEVICE void with(int64_t w) const {
      mix_channels<WidePack<T>, D, N>(
          path.couplings, path.size, path.weight + w, path.mul3, path.out + w, path.out_step);
    }
  };
};

template <class T>
struct Gradients {
  const MixedGradients<T>& op;

  template <int D>
  void with() const {
    for_registers<kMostRegisters<D>, T>(op.mul3, Blocks<D>{*this});
  }

  template <int D>
  struct Blocks {
    const Gradients& path;

    template <int N>
    EQUIGEO_HOST_DEVICE void with(int64_t w) const {
      path.template block<D, N>(w);
    }
  };

  template <int D, int N>
  void block(int64_t w) const {
    const ArrivingGradient<WidePack<T>, D, N, T> arriving(op.grad + w, op.grad_step);
    for (int64_t u = 0; u < op.size.mul && op.grad_couplings != nullptr; u += kLane<T>) {
      channels<D>(arriving, u, w);
    }
    if (op.grad_weight != nullptr) {
      weights<N>(arriving, w);
    }
  }

  template <int N, class Arriving>
  EQUIGEO_HOST_DEVICE void weights(const Arriving& arriving, int64_t w) const {
    // Registers may reach over the end of a row of weights: rows are written in order, the last
    // columns before the first, so that what is written too much is written again.
    const int64_t end = op.size.mul * op.size.mul2 * op.mul3;
    int64_t place = w;
    for (int64_t u = 0; u < op.size.mul; ++u) {
      for (int64_t v = 0; v < op.size.mul2; ++v, place += op.mul3) {
        const T* coupling = op.couplings + v * op.size.v_step + u;
        if (place + N * kLane<T> <= end) {
          arriving.weights(coupling, op.size.k_step, op.grad_weight + place);
          continue;
        }
        T last[N * kLane<T>];
        arriving.weights(coupling, op.size.k_step, last);
        copy_row(
            last, op.mul3 - w < N * kLane<T> ? op.mul3 - w : N * kLane<T>, op.grad_weight + place);
      }
    }
  }

  // Gradients of the couplings of a register of channels.
  template <int D, class Arriving>
  EQUIGEO_HOST_DEVICE void channels(const Arriving& arriving, int64_t first, int64_t w) const {
    constexpr int64_t kW = kLane<T>;
    const int64_t left = op.size.mul - first, count = left < kW ? left : kW;
    const T* row = op.weight + first * op.size.mul2 * op.mul3 + w;
    for (int64_t u = 0; u < count; ++u) {
      for (int64_t v = 0; v < op.size.mul2; ++v, row += op.mul3) {
        arriving.couplings(row, op.slopes + (v * D * kW + u) * kW, kW * kW);
      }
    }
    for (int64_t v = 0; v < op.size.mul2; ++v) {
      for (int64_t k = 0; k < D; ++k) {
        T* into = op.grad_couplings + v * op.size.v_step + k * op.size.k_step + first;
        add_sums(op.slopes + (v * D + k) * kW * kW, count, into);
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

void EQUIGEO_FOR_ISA(mix_path)(int64_t d3, const MixedPath<float>& path) {
  for_components(d3, Mixed<float>{path});
}
void EQUIGEO_FOR_ISA(mix_path)(int64_t d3, const MixedPath<double>& path) {
  for_components(d3, Mixed<double>{path});
}
void EQUIGEO_FOR_ISA(mixed_gradients)(int64_t d3, const MixedGradients<float>& path) {
  for_components(d3, Gradients<float>{path});
}
void EQUIGEO_FOR_ISA(mixed_gradients)(int64_t d3, const MixedGradients<double>& path) {
  for_components(d3, Gradients<double>{path});
}

}  // namespace equigeo
