// Arguments of the op, for any device: contiguous arrays whose sizes have been checked.
#pragma once

#include <stdint.h>

#include "math/expansion.h"

namespace equigeo {

template <class T>
struct GridProduct {
  Expansion<T> first, second, third;
  int64_t samples, summands, latitudes, longitudes;
  const T* x;  // (samples, coefficients of the first)
  const T* y;  // (samples, coefficients of the second)
  T* out;      // (samples, coefficients of the third)
};

}  // namespace equigeo
