#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/loaded_kernels.h"

namespace equigeo {

#if defined(CUDART_VERSION) && CUDART_VERSION >= 12080
const char* load_kernels(
    const void* cubin, const char* const* symbols, const void* (&kernel)[LoadedKernels::kCount]) {
  cudaLibrary_t library = nullptr;  // for good: calls may be queued, and graphs kept
  cudaError_t status =
      cudaLibraryLoadData(&library, cubin, nullptr, nullptr, 0, nullptr, nullptr, 0);
  for (int n = 0; n < LoadedKernels::kCount && status == cudaSuccess; ++n) {
    cudaKernel_t found = nullptr;
    status = cudaLibraryGetKernel(&found, library, symbols[n]);
    kernel[n] = static_cast<const void*>(found);
    // Loads it, which a capture of a graph could not.
    cudaFuncAttributes attributes{};
    status = status == cudaSuccess ? cudaFuncGetAttributes(&attributes, kernel[n]) : status;
  }
  cudaGetLastError();  // is not that of a launch
  return status == cudaSuccess ? nullptr : cudaGetErrorName(status);
}
#else
const char* load_kernels(const void*, const char* const*, const void* (&)[LoadedKernels::kCount]) {
  return "the library was built with a CUDA older than 12.8, or for the simulator";
}
#endif

}  // namespace equigeo
