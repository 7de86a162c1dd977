// Channels of segments with components inside, on their way through shared memory: lanes read
// neighbours there, which they are not where each reads the components of its own channel.
#pragma once

#include "kernels/cuda/channels.cuh"

namespace equigeo {
namespace {

// Whether N * kWarp channels of d components fit into some numbers, and are worth the way.
template <int N>
__device__ inline bool fits(int d, int numbers) {
  return d > 1 && d <= numbers / (N * kWarp);
}

// Copy N * kWarp channels of a segment, from `first` on, to shared memory, where they are behind
// wait_for_copies and a barrier.
template <int N, class S, class T>
__device__ __forceinline__ void stage_channels(
    const S* segment, int mul, int d, int first, T* shared) {
  const int left = mul - first, width = (left < N * kWarp ? left : N * kWarp) * d;
#pragma unroll 1
  for (int n = threadIdx.x; n < width; n += kWarp) {
    copy_later(shared + n, segment + first * d + n);
  }
}

// As load_channels, from staged channels. Their components are odd in number, in irreps, so that no
// two lanes read from one bank.
template <int D, int N, class T>
__device__ __forceinline__ void load_staged(
    const T* shared, const Channels& channels, int d, int n, int first, int count, T (&to)[D][N]) {
#pragma unroll
  for (int i = 0; i < D; ++i) {
#pragma unroll
    for (int m = 0; m < N; ++m) {
      const bool any = channels.has(n + m) && i < count;
      to[i][m] = any ? shared[(threadIdx.x + (n + m) * kWarp) * d + first + i] : T(0);
    }
  }
}

// Channels of a segment in memory, and, or null, where they are staged.
template <class S, class T>
struct MaybeStaged {
  const S* segment;
  const T* staged;
  int d;

  template <int K, int N>
  __device__ __forceinline__ void load(
      const Channels& channels, int first, int count, T (&to)[K][N]) const {
    if (staged != nullptr) {
      load_staged(staged, channels, d, 0, first, count, to);
    } else {
      load_channels(segment, channels, 0, first, count, to);
    }
  }
};

}  // namespace
}  // namespace equigeo
