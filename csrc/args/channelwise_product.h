// Arguments of the ops, for any device: contiguous arrays whose sizes have been checked.
#pragma once

#include "args/path_table.h"
#include "args/storage.h"

namespace equigeo {

// Features are stored as S.
template <class S>
struct ChannelwiseProduct {
  PathTable<Compute<S>> table;
  const S* x;             // (rows, dim_x)
  const S* y;             // (rows, dim_y)
  const S* weight;        // (rows, dim_weight), or null where no path has weights
  int64_t weight_stride;  // dim_weight, or 0 if all rows share one
  int64_t rows;
  S* out;       // (rows, dim_out)
  bool stream;  // whether it is too large for the caches
};

template <class S>
struct ChannelwiseProductBackward {
  PathTable<Compute<S>> table;
  const S* grad;          // (rows, dim_out)
  const S* x;             // (rows, dim_x)
  const S* y;             // (rows, dim_y)
  const S* weight;        // (rows, dim_weight) or null
  int64_t weight_stride;  // dim_weight, or 0 if all rows share one
  int64_t rows;
  S* grad_x;
  S* grad_y;
  S* grad_weight;
  bool stream_x, stream_weight;  // whether these are too large for the caches
};

// Derivatives of the gradients, along tangents that are null where they are zero. Results that are
// null are not wanted.
template <class S>
struct ChannelwiseProductDoubleBackward {
  PathTable<Compute<S>> table;
  const S* grad;          // (rows, dim_out)
  const S* x;             // (rows, dim_x)
  const S* y;             // (rows, dim_y)
  const S* weight;        // (rows, dim_weight) or null
  int64_t weight_stride;  // dim_weight, or 0 if all rows share one
  const S* x_tangent;
  const S* y_tangent;
  const S* weight_tangent;
  int64_t rows;
  S* to_grad;
  S* to_x;
  S* to_y;
  S* to_weight;
  bool stream;  // whether to_grad is too large for the caches
};

}  // namespace equigeo
