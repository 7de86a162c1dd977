// Arguments of the ops of principal axes, for any device: contiguous arrays whose sizes have been
// checked.
#pragma once

#include <stdint.h>

namespace equigeo {

// As in equigeo/ops/clouds/cloud_sums.py.
constexpr int64_t kUnscaled = 0, kRms = 1, kFirst = 2, kPairs = 3;
constexpr int64_t kAsFound = 0, kEach = 1, kLast = 2, kLeast = 3;

template <class T>
struct PrincipalAxes {
  int64_t clouds, dim;  // dim from 1 to 3
  const T* x;           // (points, dim)
  const int64_t* ptr;   // (clouds + 1,)
  const T* weight;      // (points,), or null
  bool center;
  int64_t signs, scale;
  double null_tol;
  T* y;         // (points, dim)
  T* frame;     // (clouds, dim, dim)
  T* centroid;  // (clouds, dim)
  T* spread;    // (clouds, dim)
  T* size;      // (clouds,)
  T* margin;    // (clouds, dim)
};

template <class T>
struct PrincipalAxesBackward {
  int64_t clouds, dim;
  const T *grad_y, *grad_frame, *grad_centroid, *grad_spread, *grad_size;
  const T *y, *frame, *spread, *size;
  const int64_t* ptr;
  const T* weight;
  bool center;
  int64_t scale;
  double smoothing, rounding;  // a torque of `rounding` relative to its terms is none
  T* grad_x;                   // (points, dim)
};

}  // namespace equigeo
