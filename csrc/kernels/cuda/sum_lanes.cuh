// Sums over the lanes of a warp, in an order that never changes.
#pragma once

#include "kernels/cuda/launch.cuh"

namespace equigeo {
namespace {

// Adds up V numbers of every lane, V a power of two. Lane l is left with the sum of number l % V in
// values[0]: in each step half of the numbers that are left go to the other half of the lanes.
template <int V, class T, int Size>
__device__ __forceinline__ void sum_lanes(T (&values)[Size]) {
  if constexpr (V > 1) {
    constexpr int kHalf = V / 2;
    const bool upper = threadIdx.x & kHalf;
#pragma unroll
    for (int n = 0; n < kHalf; ++n) {
      const T kept = upper ? values[n + kHalf] : values[n];
      const T sent = upper ? values[n] : values[n + kHalf];
      values[n] = kept + __shfl_xor_sync(0xffffffffu, sent, kHalf);
    }
    sum_lanes<kHalf>(values);
  } else {
#pragma unroll
    for (int lanes = Size; lanes < kWarp; lanes *= 2) {
      values[0] += __shfl_xor_sync(0xffffffffu, values[0], lanes);
    }
  }
}

}  // namespace
}  // namespace equigeo
