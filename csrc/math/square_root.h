// Square roots and magnitudes of numbers and of packs.
#pragma once

#include "math/host_device.h"

namespace equigeo {
namespace {

EQUIGEO_HOST_DEVICE float square_root(float x) {
#ifdef __CUDA_ARCH__
  return sqrtf(x);
#else
  return __builtin_sqrtf(x);
#endif
}

EQUIGEO_HOST_DEVICE double square_root(double x) {
#ifdef __CUDA_ARCH__
  return sqrt(x);
#else
  return __builtin_sqrt(x);
#endif
}

template <class Pack>
EQUIGEO_HOST_DEVICE Pack square_root(Pack x) {
  Pack root;
  for (int i = 0; i < kWidth<Pack, typename Lanes<Pack>::Scalar>; ++i) {
    root[i] = square_root(x[i]);
  }
  return root;
}

template <class Pack>
EQUIGEO_HOST_DEVICE Pack magnitude(Pack x) {
  using Bits = typename Lanes<Pack>::Bits;
  Bits bits;
  __builtin_memcpy(&bits, &x, sizeof(bits));
  bits &= ~Bits{} >> 1;  // all but the sign
  __builtin_memcpy(&x, &bits, sizeof(bits));
  return x;
}

}  // namespace
}  // namespace equigeo
