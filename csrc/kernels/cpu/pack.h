// SIMD registers of the instruction set that this file is being compiled for.
#pragma once

#include "math/host_device.h"

namespace equigeo {
namespace {

// Sixteen bytes are SSE2 on x86-64 and NEON on Arm.
#if defined(__AVX512F__)
#define EQUIGEO_PACK_BYTES 64
#elif defined(__AVX2__)
#define EQUIGEO_PACK_BYTES 32
#else
#define EQUIGEO_PACK_BYTES 16
#endif

// How many registers there are, which limits the sums that a loop can have.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kRegisters = 32;
#else
constexpr int kRegisters = 16;
#endif
constexpr bool kManyNarrow = kRegisters == 32 && EQUIGEO_PACK_BYTES == 16;

template <class T, int Bytes>
struct PackOf;

// `InMemory` is the same register read from an address with the alignment of one element.
#define EQUIGEO_PACK(T, bytes)                                                             \
  template <>                                                                              \
  struct PackOf<T, bytes> {                                                                \
    typedef T Type __attribute__((vector_size(bytes)));                                    \
    typedef T InMemory __attribute__((vector_size(bytes), aligned(sizeof(T)), may_alias)); \
  };                                                                                       \
  template <>                                                                              \
  struct Lanes<PackOf<T, bytes>::Type> {                                                   \
    using Scalar = T;                                                                      \
    typedef Lanes<T>::Bits Bits __attribute__((vector_size(bytes)));                       \
  };                                                                                       \
  template <>                                                                              \
  struct Memory<PackOf<T, bytes>::Type, T> {                                               \
    using Pack = PackOf<T, bytes>::Type;                                                   \
    using InMemory = PackOf<T, bytes>::InMemory;                                           \
    static EQUIGEO_HOST_DEVICE Pack load(const T* address) {                               \
      return *reinterpret_cast<const InMemory*>(address);                                  \
    }                                                                                      \
    static EQUIGEO_HOST_DEVICE void store(T* address, Pack value) {                        \
      *reinterpret_cast<InMemory*>(address) = value;                                       \
    }                                                                                      \
  }

EQUIGEO_PACK(float, 8);
EQUIGEO_PACK(float, 16);
EQUIGEO_PACK(double, 16);
#if EQUIGEO_PACK_BYTES >= 32
EQUIGEO_PACK(float, 32);
EQUIGEO_PACK(double, 32);
#endif
#if EQUIGEO_PACK_BYTES >= 64
EQUIGEO_PACK(float, 64);
EQUIGEO_PACK(double, 64);
#endif
#undef EQUIGEO_PACK

template <class T>
using WidePack = typename PackOf<T, EQUIGEO_PACK_BYTES>::Type;
template <class T>
using NarrowPack = typename PackOf<T, 16>::Type;

// As many numbers in float64. GCC 12 has no single instruction for a whole register.
template <class T, int Bytes>
EQUIGEO_HOST_DEVICE typename PackOf<double, Bytes * 8 / sizeof(T)>::Type widened(
    typename PackOf<T, Bytes>::Type pack) {
#if defined(__AVX512F__) && !defined(__clang__)
  if constexpr (sizeof(T) == 4 && Bytes == 32) {
    constexpr int kAsSet = 4;  // the rounding, which there is none of
    return __builtin_ia32_cvtps2pd512_mask(pack, PackOf<double, 64>::Type{}, -1, kAsSet);
  }
#endif
  return __builtin_convertvector(pack, typename PackOf<double, Bytes * 8 / sizeof(T)>::Type);
}

// Sum of the lanes, halving until one register of 16 bytes is left.
template <class T, int Bytes>
EQUIGEO_HOST_DEVICE T sum_lanes(typename PackOf<T, Bytes>::Type pack) {
  if constexpr (Bytes > 16) {
    using Half = typename PackOf<T, Bytes / 2>::Type;
    Half halves[2];
    __builtin_memcpy(halves, &pack, Bytes);
    return sum_lanes<T, Bytes / 2>(halves[0] + halves[1]);
  } else if constexpr (sizeof(T) == 4) {
    return (pack[0] + pack[2]) + (pack[1] + pack[3]);
  } else {
    return pack[0] + pack[1];
  }
}

}  // namespace
}  // namespace equigeo
