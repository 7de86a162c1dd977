// Arguments of the op, for any device: contiguous arrays whose sizes have been checked.
#pragma once

#include <stdint.h>

namespace equigeo {

// A function on the sphere by factors along meridians, (summands, (lmax + 1)^2, latitudes), and
// along parallels, (summands, 2 lmax + 1, longitudes). The only summand, where there is one, stands
// for all.
template <class T>
struct Expansion {
  const T* legendre;
  const T* trig;
  int64_t summands, lmax;
};

template <class T>
struct GridProduct {
  Expansion<T> first, second, third;
  int64_t samples, summands, latitudes, longitudes;
  const T* x;  // (samples, coefficients of the first)
  const T* y;  // (samples, coefficients of the second)
  T* out;      // (samples, coefficients of the third)
};

}  // namespace equigeo
