// Launching kernels, their shared memory, and one thread, or one warp, per item.
//
// Sources use neither <<<>>> nor __shared__ elsewhere, so that a compiler of plain C++ takes them
// too, with csrc/simulator in the place of CUDA's headers.
#pragma once

#include <cuda_runtime.h>
#include <stdint.h>

namespace equigeo {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr int64_t kMostBlocks = 1 << 20;
// Blocks with which every multiprocessor of a large card has some; of more rows than that a block
// takes several. On the simulator small problems have as many.
#ifdef EQUIGEO_SMALL_CHUNKS
constexpr int64_t kManyBlocks = 1;
#else
constexpr int64_t kManyBlocks = 1024;
#endif

// As many blocks as a grid has for that many; kernels stride over what is beyond.
inline unsigned grid_of(int64_t blocks) {
  return static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks);
}

__device__ inline int64_t first_item() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

__device__ inline int64_t item_stride() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

// Stops the kernel with a trap unless a table holds to what is asked of it: it is on the device,
// where the host cannot read it without waiting.
__device__ inline void require(bool holds) {
  if (!holds) {
    __trap();
  }
}

#ifndef __CUDACC_RTC__
// Queue kernel(arguments...), with `bytes` of dynamic shared memory for every block. What goes
// wrong is left for launch_error().
template <class... Parameters, class... Arguments>
void launch_kernel(
    void (*kernel)(Parameters...),
    dim3 grid,
    dim3 block,
    int64_t bytes,
    void* stream,
    const Arguments&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = static_cast<size_t>(bytes);
  config.stream = static_cast<cudaStream_t>(stream);
  cudaLaunchKernelEx(&config, kernel, arguments...);
}

// Call kernel(arguments...) with at least one thread per item, as far as the grid allows.
template <class... Arguments>
void launch_threads(
    void (*kernel)(Arguments...), int64_t items, void* stream, Arguments... arguments) {
  if (items == 0) {
    return;
  }
  const int64_t blocks = (items + kThreads - 1) / kThreads;
  launch_kernel(kernel, grid_of(blocks), kThreads, 0, stream, arguments...);
}

inline const char* launch_error() {
  const cudaError_t status = cudaGetLastError();
  return status == cudaSuccess ? nullptr : cudaGetErrorName(status);
}
#endif

#ifndef EQUIGEO_SIMULATOR
// The dynamic shared memory of a block, aligned to 16 bytes.
template <class T>
__device__ __forceinline__ T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char dynamic_memory[];
  return reinterpret_cast<T*>(dynamic_memory);
}

// A variable in the static shared memory of a block, one for each type.
template <class T>
__device__ __forceinline__ T& static_shared() {
  __shared__ T variable;
  return variable;
}
#else
using simulator::dynamic_shared;
using simulator::static_shared;
#endif

}  // namespace
}  // namespace equigeo
