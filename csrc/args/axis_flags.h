// Arguments of the op, for any device: contiguous arrays whose sizes have been checked.
#pragma once

#include "args/principal_axes.h"

namespace equigeo {

template <class T>
struct AxisFlags {
  int64_t clouds, dim;
  const T *spread, *margin, *centroid;  // (clouds, dim)
  const int64_t* ptr;                   // (clouds + 1,)
  const T* weight;                      // (points,), or null
  int64_t points;                       // of which there are weights, or -1
  Signs signs;
  double eps, gap_tol, sign_tol;
  T* gap;                        // (clouds, dim - 1)
  bool *ambiguous, *degenerate;  // (clouds, dim), (clouds, dim - 1)
  int64_t* counts;               // (2,): clouds that are not finite, flagged ones; zero before
};

}  // namespace equigeo
