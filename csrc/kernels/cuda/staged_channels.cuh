// Channels of segments on their way through shared memory: they are asked for early, and where
// components are inside, lanes read neighbours in memory there, which they are not where each reads
// the components of its own channel.
#pragma once

#include "kernels/cuda/channels.cuh"

namespace equigeo {
namespace {

// Whether N * kWarp channels of d components fit into some numbers.
template <int N>
__device__ inline bool fits(int d, int numbers) {
  return d <= numbers / (N * kWarp);
}

// N * kWarp channels of a segment in shared memory, in the layout in which they came: from one
// channel, one component to the next. Where components are inside, they are odd in number, in
// irreps, so that no two lanes read from one bank.
template <int N>
struct StagedLayout {
  int step, component;

  __device__ StagedLayout(bool ir_mul, int d)
      : step(ir_mul ? 1 : d), component(ir_mul ? N * kWarp : 1) {}
};

// Copy N * kWarp channels of a segment, from `first` on, to shared memory, where they are behind
// wait_for_copies and a barrier.
template <int N, class S, class T>
__device__ __forceinline__ void stage_channels(
    const S* segment, bool ir_mul, int mul, int d, int first, T* shared) {
  const int lane = threadIdx.x, left = mul - first;
  if (ir_mul) {
    const S* from = segment + first + lane;
    T* to = shared + lane;
#pragma unroll 1
    for (int i = 0; i < d; ++i, from += mul, to += N * kWarp) {
#pragma unroll
      for (int n = 0; n < N; ++n) {
        if (n * kWarp + lane < left) {
          copy_later(to + n * kWarp, from + n * kWarp);
        }
      }
    }
    return;
  }
  const int width = (left < N * kWarp ? left : N * kWarp) * d;
  const S* from = segment + first * d;
#pragma unroll 1
  for (int n = lane; n < width; n += kWarp) {
    copy_later(shared + n, from + n);
  }
}

// As load_channels, from staged channels.
template <int D, int N, int K, class S, class T>
__device__ __forceinline__ void load_staged(
    const S* shared,
    const StagedLayout<N>& layout,
    const Channels& channels,
    int n,
    int first,
    int count,
    T (&to)[D][K]) {
  const S* from = shared + (threadIdx.x + n * kWarp) * layout.step + first * layout.component;
#pragma unroll
  for (int i = 0; i < D; ++i, from += layout.component) {
#pragma unroll
    for (int m = 0; m < K; ++m) {
      const bool any = channels.has(n + m) && i < count;
      to[i][m] = any ? load<false>(from + m * kWarp * layout.step) : T(0);
    }
  }
}

// Channels of a segment in memory, and, or null, where they are staged.
template <int N, class S, class T>
struct MaybeStaged {
  const S* segment;
  const T* staged;
  StagedLayout<N> layout;

  template <int K>
  __device__ __forceinline__ void load(
      const Channels& channels, int first, int count, T (&to)[K][N]) const {
    if (staged != nullptr) {
      load_staged(staged, layout, channels, 0, first, count, to);
    } else {
      load_channels(segment, channels, 0, first, count, to);
    }
  }
};

}  // namespace
}  // namespace equigeo
