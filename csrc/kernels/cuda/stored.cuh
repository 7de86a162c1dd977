// Reading and writing numbers in their format of storage.
#pragma once

#include <cuda_pipeline.h>

#include "kernels/cuda/launch.cuh"
#include "math/bfloat16.h"

namespace equigeo {
namespace {

template <class T>
__device__ T load(const T* from) {
  return __ldg(from);
}
__device__ inline float load(const Bf16* from) {
  return widen({__ldg(reinterpret_cast<const unsigned short*>(from))});
}

// From global memory, or from any.
template <bool Global, class S>
__device__ Compute<S> load(const S* from) {
  if constexpr (Global) {
    return load(from);
  } else if constexpr (sizeof(S) == sizeof(Bf16)) {
    return widen(*from);
  } else {
    return *from;
  }
}

template <class T>
__device__ void store(T* to, T value) {
  *to = value;
}
__device__ inline void store(Bf16* to, float value) { *to = narrow(value); }

// To where nothing will be read soon.
template <class T>
__device__ void store_away(T* to, T value) {
  __stcs(to, value);
}
__device__ inline void store_away(Bf16* to, float value) {
  __stcs(reinterpret_cast<unsigned short*>(to), narrow(value).bits);
}

// Into shared memory, for this thread behind wait_for_copies, for others of its warp behind a
// barrier after that.
template <class T>
__device__ void copy_later(T* to, const T* from) {
  __pipeline_memcpy_async(to, from, sizeof(T));
}
__device__ inline void copy_later(float* to, const Bf16* from) { *to = load(from); }
__device__ inline void copy_later(Bf16* to, const Bf16* from) { *to = *from; }

__device__ inline void wait_for_copies() {
  __pipeline_commit();
  __pipeline_wait_prior(0);
}

// In turns: what was asked for since the last wait is on its way, what was asked for before is
// there.
__device__ inline void wait_for_former_copies() {
  __pipeline_commit();
  __pipeline_wait_prior(1);
}

}  // namespace
}  // namespace equigeo
