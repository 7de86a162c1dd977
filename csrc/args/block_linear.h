// Arguments of the ops, for any device: contiguous arrays whose sizes have been checked.
#pragma once

#include "args/storage.h"

namespace equigeo {

// Mixes the copies of a segment of the input into those of a segment of the output, by
// (mul, mul_out) weights. A row of the op's argument `blocks`.
struct LinearBlock {
  int64_t in, mul, out, mul_out;  // offsets and copies of the segments
  int64_t d;                      // components of both
  int64_t weight;                 // offset
};

template <class T>
struct LinearBlocks {
  const LinearBlock* block;
  const T* factor;  // of each block
  int64_t count;
  int64_t dim_in, dim_weight, dim_out;
  bool ir_mul;
  void* kept;  // memory of the device for what later calls with these blocks need too, or null
};

// Rows are in groups of equally many, which have their own weights.
template <class S>
struct BlockLinear {
  LinearBlocks<Compute<S>> blocks;
  const S* x;       // (rows, dim_in)
  const S* weight;  // (groups, dim_weight)
  int64_t rows, groups;
  S* out;  // (rows, dim_out)
};

template <class S>
struct BlockLinearBackward {
  LinearBlocks<Compute<S>> blocks;
  const S* grad;  // (rows, dim_out)
  const S* x;
  const S* weight;
  int64_t rows, groups;
  S* grad_x;       // null where it is not asked for
  S* grad_weight;  // likewise
};

}  // namespace equigeo
