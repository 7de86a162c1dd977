// Stands in for CUDA's header of this name where kernels are compiled at run time: those kernels
// copy nothing asynchronously.
#pragma once

__device__ void __pipeline_memcpy_async(void* to, const void* from, size_t bytes);
__device__ void __pipeline_commit();
__device__ void __pipeline_wait_prior(size_t left);
