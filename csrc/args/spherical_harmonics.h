// Arguments of the ops of spherical harmonics, for any device: contiguous arrays whose sizes have
// been checked.
#pragma once

#include <stdint.h>

namespace equigeo {

// Coefficients by order m and degree l at `m * size + l`.
template <class T>
struct HarmonicsTable {
  const T *up, *down, *start;  // of the recursion over degrees
  const T *along, *raise;      // of derivatives
  int64_t size, lmax;  // rows are for `size` degrees, of which those up to `lmax` are needed
};

template <class T>
struct SphericalHarmonics {
  HarmonicsTable<T> table;
  const int32_t* center;  // by degree, the column of order zero; -1 where it is not wanted
  int64_t points, dim;
  bool normalize;
  const T* x;   // (points, 3)
  T* out;       // (points, dim)
  bool stream;  // whether it is too large for the caches
};

template <class T>
struct SphericalHarmonicsBackward {
  HarmonicsTable<T> table;
  const int32_t* center;
  int64_t points, dim;
  bool normalize;
  const T* x;
  const T* grad;  // (points, dim)
  T* grad_x;      // (points, 3)
};

template <class T>
struct SphericalHarmonicsDoubleBackward {
  HarmonicsTable<T> table;
  const int32_t* center;
  int64_t points, dim;
  bool normalize;
  const T* x;
  const T* grad;   // (points, dim)
  const T* along;  // (points, 3)
  T* to_grad;      // (points, dim)
  T* to_x;         // (points, 3)
};

}  // namespace equigeo
