// Whether a kernel for one path table, or that of all tables, has something to do.
#pragma once

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/plan.h"

namespace equigeo {
namespace {

// Whether a table with the sizes of a known one is that, for all lanes of a warp.
template <class T>
__device__ __forceinline__ bool is_known(const Plan<T>& plan) {
  int unknown = 0;
#pragma unroll 1
  for (int64_t p = threadIdx.x; p < plan.count; p += kWarp) {
    unknown |= plan.known[p] == 0;
  }
#pragma unroll
  for (int lanes = 1; lanes < kWarp; lanes *= 2) {
    unknown |= __shfl_xor_sync(0xffffffffu, unknown, lanes);
  }
  return unknown == 0;
}

}  // namespace
}  // namespace equigeo
