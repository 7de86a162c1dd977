// Arguments of the ops, for any device: contiguous arrays whose sizes have been checked.
#pragma once

#include "args/path_table.h"
#include "args/storage.h"

namespace equigeo {

// Features are stored as S.
template <class S>
struct ChannelwiseProduct {
  PathTable<Compute<S>> table;
  const S* x;       // (rows, dim_x)
  const S* y;       // (rows, dim_y)
  const S* weight;  // (rows, dim_weight), or null where no path has weights
  int64_t rows;
  S* out;       // (rows, dim_out)
  bool stream;  // whether it is too large for the caches
};

template <class S>
struct ChannelwiseProductBackward {
  PathTable<Compute<S>> table;
  const S* grad;    // (rows, dim_out)
  const S* x;       // (rows, dim_x)
  const S* y;       // (rows, dim_y)
  const S* weight;  // (rows, dim_weight) or null
  int64_t rows;
  S* grad_x;
  S* grad_y;
  S* grad_weight;
};

}  // namespace equigeo
