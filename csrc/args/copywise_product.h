// Arguments of the ops, for any device: contiguous arrays whose sizes have been checked.
#pragma once

#include "args/path_table.h"

namespace equigeo {

template <class T>
struct CopywiseProduct {
  PathTable<T> table;
  const T* x;             // (rows, dim_x)
  const T* y;             // (rows, dim_y)
  const T* weight;        // rows of dim_weight, or null where no path has weights
  int64_t weight_stride;  // from row to row; 0 where all have the same
  int64_t rows;
  T* out;       // (rows, dim_out)
  bool stream;  // whether it is written past the caches
};

template <class T>
struct CopywiseProductBackward {
  PathTable<T> table;
  const T* grad;  // (rows, dim_out)
  const T* x;
  const T* y;
  const T* weight;
  int64_t weight_stride;
  int64_t rows;
  T* grad_x;
  T* grad_y;
  T* grad_weight;  // (rows, dim_weight)
};

// Derivatives of the gradients, along tangents that are null where they are zero. Results that are
// null are not wanted.
template <class T>
struct CopywiseProductDoubleBackward {
  PathTable<T> table;
  const T* grad;  // (rows, dim_out)
  const T* x;
  const T* y;
  const T* weight;
  int64_t weight_stride;
  const T* x_tangent;
  const T* y_tangent;
  const T* weight_tangent;  // (rows, dim_weight), of every row
  int64_t rows;
  T* to_grad;
  T* to_x;
  T* to_y;
  T* to_weight;
  bool stream;  // whether to_grad is written past the caches
};

}  // namespace equigeo
