// Square roots of numbers and of packs.
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

}  // namespace
}  // namespace equigeo
