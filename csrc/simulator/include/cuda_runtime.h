// Stands in for CUDA's header of this name: what sources under kernels/cuda use of it, in C++.
//
// nvcc includes it before every source; so does who compiles with the simulator.
#pragma once

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "simulator/kernel_calls.h"
#include "simulator/launch.h"
#include "simulator/settings.h"
#include "simulator/shared_memory.h"
#include "simulator/vector_types.h"

// --- Words of the language
// ------------------------------------------------------------------------

#define EQUIGEO_SIMULATOR
// Sources take the branches that they take in code for the device, of which all of this is some.
#define __CUDACC__
#define __CUDA_ARCH__ 900

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__

static constexpr const uint3& threadIdx = equigeo::simulator::coordinates.thread;
static constexpr const uint3& blockIdx = equigeo::simulator::coordinates.block;
static constexpr const dim3& blockDim = equigeo::simulator::coordinates.threads;
static constexpr const dim3& gridDim = equigeo::simulator::coordinates.blocks;

// --- Functions of the host
// ------------------------------------------------------------------------

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1 };
enum cudaDeviceAttr { cudaDevAttrMaxSharedMemoryPerBlockOptin = 97 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
// Tests number their streams, and the graphs that these capture; a null handle is stream 0.
struct CUstream_st {
  unsigned long long id = 0, graph = 0;
};
using cudaStream_t = CUstream_st*;

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
};

namespace equigeo::simulator {

inline cudaError_t last_error = cudaSuccess;

}  // namespace equigeo::simulator

inline cudaError_t cudaGetLastError() {
  const cudaError_t error = equigeo::simulator::last_error;
  equigeo::simulator::last_error = cudaSuccess;
  return error;
}

inline const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaSuccess ? "cudaSuccess" : "cudaErrorInvalidValue";
}

inline cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = static_cast<int>(equigeo::simulator::settings().device.shared_per_block);
  return cudaSuccess;
}

template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel* kernel, cudaFuncAttribute, int value) {
  const bool fits =
      equigeo::simulator::allow_dynamic_shared(reinterpret_cast<const void*>(kernel), value);
  equigeo::simulator::last_error = fits ? equigeo::simulator::last_error : cudaErrorInvalidValue;
  return fits ? cudaSuccess : cudaErrorInvalidValue;
}

// Memory of the device is that of the host, and nothing is left to be waited for.
inline cudaError_t cudaMalloc(void** memory, size_t bytes) {
  *memory = malloc(bytes);
  return cudaSuccess;
}

inline cudaError_t cudaFree(void* memory) {
  free(memory);
  return cudaSuccess;
}

inline cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t) {
  memset(memory, value, bytes);
  return cudaSuccess;
}

inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }

enum { cudaStreamNonBlocking = 1 };
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone = 0, cudaStreamCaptureStatusActive = 1 };
enum cudaStreamCaptureMode { cudaStreamCaptureModeRelaxed = 2 };

inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = nullptr;
  return cudaSuccess;
}

inline cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }

inline cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  *id = stream == nullptr ? 0 : stream->id;
  return cudaSuccess;
}

inline cudaError_t cudaStreamGetCaptureInfo(
    cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* graph) {
  *graph = stream == nullptr ? 0 : stream->graph;
  *status = *graph == 0 ? cudaStreamCaptureStatusNone : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

inline cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) {
  return cudaSuccess;
}

// Runs the kernel at once, which one stream does not distinguish. Every thread has copies
// of the arguments, which it may change.
template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(
    const cudaLaunchConfig_t* config, void (*kernel)(Parameters...), Arguments&&... arguments) {
  const auto launch = [&](Parameters... parameters) {
    auto run = [&]() __attribute__((no_sanitize("thread"))) { kernel(parameters...); };
    const equigeo::simulator::Body body{
        [](void* closure) { (*static_cast<decltype(run)*>(closure))(); }, &run};
    const equigeo::simulator::Shape shape{
        config->gridDim, config->blockDim, static_cast<int64_t>(config->dynamicSmemBytes),
        (sizeof(Parameters) + ... + 0)};
    equigeo::simulator::run_grid(shape, reinterpret_cast<const void*>(kernel), body);
  };
  launch(static_cast<Arguments&&>(arguments)...);
  return cudaSuccess;
}
