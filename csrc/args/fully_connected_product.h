// Arguments of the ops, for any device: contiguous arrays whose sizes have been checked.
#pragma once

#include "args/path_table.h"

namespace equigeo {

template <class T>
struct FullyConnectedProduct {
  PathTable<T> table;
  const T* x;       // (rows, dim_x)
  const T* y;       // (rows, dim_y)
  const T* weight;  // (rows, dim_weight)
  int64_t rows;
  T* out;  // (rows, dim_out)
};

template <class T>
struct FullyConnectedProductBackward {
  PathTable<T> table;
  const T* grad;  // (rows, dim_out)
  const T* x;
  const T* y;
  const T* weight;
  int64_t rows;
  T* grad_x;
  T* grad_y;
  T* grad_weight;
};

// Derivatives of the gradients, along tangents that are null where they are zero. Results that are
// null are not wanted.
template <class T>
struct FullyConnectedProductDoubleBackward {
  PathTable<T> table;
  const T* grad;  // (rows, dim_out)
  const T* x;
  const T* y;
  const T* weight;
  const T* x_tangent;
  const T* y_tangent;
  const T* weight_tangent;
  int64_t rows;
  T* to_grad;
  T* to_x;
  T* to_y;
  T* to_weight;
};

}  // namespace equigeo
