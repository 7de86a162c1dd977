// A warp as a team of lanes that share a row.
#pragma once

#include "kernels/cuda/launch.cuh"
#include "math/host_device.h"

namespace equigeo {
namespace {

struct Warp {
  int64_t lane, lanes;

  EQUIGEO_HOST_DEVICE void sync() const {
#ifdef __CUDA_ARCH__
    __syncwarp();
#endif
  }

  // Of all lanes, in all lanes.
  template <class T>
  EQUIGEO_HOST_DEVICE T sum(T value) const {
#ifdef __CUDA_ARCH__
    for (int apart = kWarp / 2; apart > 0; apart /= 2) {
      value += __shfl_xor_sync(0xffffffffu, value, apart);
    }
#endif
    return value;
  }
};

__device__ inline Warp this_warp() { return {threadIdx.x % kWarp, kWarp}; }

}  // namespace
}  // namespace equigeo
