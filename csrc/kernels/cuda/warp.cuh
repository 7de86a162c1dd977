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
};

__device__ inline Warp this_warp() { return {threadIdx.x % kWarp, kWarp}; }

}  // namespace
}  // namespace equigeo
