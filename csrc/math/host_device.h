// What the headers of this folder need to compile for both host and device.
//
// They include neither torch nor C++ standard headers, and everything in them is in an anonymous
// namespace: the CPU kernels are compiled once per instruction set, and the linker would keep one
// copy of a shared inline function, compiled for whichever set it met first.
#pragma once

#include <stdint.h>

#ifdef __CUDACC__
#define EQUIGEO_HOST_DEVICE __host__ __device__ __forceinline__
#define EQUIGEO_UNROLL _Pragma("unroll")
#else
#define EQUIGEO_HOST_DEVICE inline __attribute__((always_inline))
#define EQUIGEO_UNROLL _Pragma("GCC unroll 16")
#endif

namespace equigeo {
namespace {

// Neighbouring channels that are computed together: one scalar here, a SIMD register in the CPU
// kernels, which specialise this template.
template <class Pack, class T>
struct Memory {
  static EQUIGEO_HOST_DEVICE Pack load(const T* address) { return *address; }
  static EQUIGEO_HOST_DEVICE void store(T* address, Pack value) { *address = value; }
};

// The element type of a pack, and unsigned integers of its shape.
template <class Pack>
struct Lanes;

template <>
struct Lanes<float> {
  using Scalar = float;
  using Bits = uint32_t;
};

template <>
struct Lanes<double> {
  using Scalar = double;
  using Bits = uint64_t;
};

template <class Pack, class T>
constexpr int kWidth = sizeof(Pack) / sizeof(T);

}  // namespace
}  // namespace equigeo
