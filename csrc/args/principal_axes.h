// Arguments of the ops of principal axes, for any device: contiguous arrays whose sizes have been
// checked.
#pragma once

#include <stdint.h>

namespace equigeo {

// The codes of the ops' arguments, with the names that they have in Python.

// What clouds are divided by: nothing, or a root mean square of points, of the first coordinate, of
// distances between two points.
enum class Scale : int64_t { kUnscaled, kRms, kFirst, kPairs };

// Signs of axes: as the solver leaves them; each by the skewness along it; or all but one, the last
// or the one of least skewness, which makes the frame right-handed.
enum class Signs : int64_t { kAsFound, kEach, kLast, kLeast };

template <class T>
struct PrincipalAxes {
  int64_t clouds, points, dim;  // dim from 1 to 3
  const T* x;                   // (points, dim)
  const int64_t* ptr;           // (clouds + 1,)
  const T* weight;              // (points,), or null
  bool center;
  Signs signs;
  Scale scale;
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
  int64_t clouds, points, dim;
  const T *grad_y, *grad_frame, *grad_centroid, *grad_spread, *grad_size;
  const T *y, *frame, *spread, *size;
  const int64_t* ptr;
  const T* weight;
  bool center;
  Scale scale;
  double smoothing, rounding;  // a torque of `rounding` relative to its terms is none
  T* grad_x;                   // (points, dim)
};

}  // namespace equigeo
