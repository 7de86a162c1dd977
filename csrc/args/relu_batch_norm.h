// Arguments of the ops, for any device: contiguous arrays whose sizes have been checked.
#pragma once

#include <stdint.h>

namespace equigeo {

// The rectified sum x + added, and its statistics over parts of the rows: for each part its mean,
// and the sum of the squared differences from it.
template <class T>
struct RectifiedSum {
  const T* x;      // (rows, channels)
  const T* added;  // the same, or null
  int64_t rows, channels;
  int64_t rows_of_part;     // rows whose statistics are taken together
  double *means, *squares;  // (parts, channels)
};

template <class T>
struct ReluBatchNorm {
  RectifiedSum<T> sum;
  const T *scale, *shift;  // (channels,): out = scale * sum + shift
  bool rectify;
  T* out;  // (rows, channels)
};

template <class T>
struct ReluBatchNormBackward {
  ReluBatchNorm<T> forward;      // without its result
  const T* grad_out;             // (rows, channels)
  const T *mean, *inverse;       // (channels,): of the sum, and one over its deviation
  const T *to_mean, *to_square;  // (channels,): grad_sum = scale * g - to_mean - to_square * sum
  double *sums, *products;       // (parts, channels): of g, and of g times the normalised sum
  T* grad_x;                     // (rows, channels)
};

}  // namespace equigeo
