// Launching one thread, or one warp, per item.
#pragma once

#include <cuda_runtime.h>
#include <stdint.h>

namespace equigeo {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr int64_t kMostBlocks = 1 << 20;  // kernels stride over what is beyond

__device__ inline int64_t first_item() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

__device__ inline int64_t item_stride() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

// Call kernel(arguments...) with at least one thread per item, as far as the grid allows.
template <class... Arguments>
void launch_threads(
    void (*kernel)(Arguments...), int64_t items, void* stream, Arguments... arguments) {
  if (items == 0) {
    return;
  }
  const int64_t blocks = (items + kThreads - 1) / kThreads;
  const unsigned grid = static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks);
  kernel<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(arguments...);
}

inline const char* launch_error() {
  const cudaError_t status = cudaGetLastError();
  return status == cudaSuccess ? nullptr : cudaGetErrorName(status);
}

}  // namespace
}  // namespace equigeo
