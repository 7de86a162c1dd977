// Arguments of the op, for any device: contiguous arrays whose sizes have been checked.
#pragma once

#include <stdint.h>

#include "ops/storage.h"

namespace equigeo {

// One coupling of a segment of the first input with a segment of the second into a segment of the
// output. Offsets count elements of a row; this is a row of the op's argument `paths`, which are
// sorted by output.
struct Path {
  int64_t x, mul, d1;   // first input: offset, multiplicity, components
  int64_t y, mul2, d2;  // second input, summed over its multiplicity
  int64_t out, d3;      // output: offset, components, of the multiplicity of the first
  int64_t weight;       // offset of (mul, mul2) weights, or -1
  int64_t first, last;  // its coefficients
};

// A coefficient couples component i of x with j of y into k of the output.
struct Entry {
  int64_t i, j, k;
};

// Where kernels keep the segments of a path in rows of their own layout, in which components are
// outside and multiplicities padded.
struct Place {
  int64_t x, out, matrix;
  bool opens, closes;  // whether the path is the first, the last one of its output
};

struct Segment1 {
  int64_t offset, mul, d, place;
};

template <class T>
struct Paths {
  const Path* path;
  const Place* place;
  int64_t count;
  const Segment1* segment;  // of the first input
  int64_t segments;
  const Entry* entry;
  const T* value;
  int64_t coefficients;
  const Entry* entry_by_second;  // the same, in each path by component of the second input
  const T* value_by_second;
  int64_t dim_x, dim_y, dim_weight, dim_out;
  int64_t padded_x, padded_out;  // elements of padded rows
  int64_t matrices;              // numbers in the matrices of all paths
  int64_t largest_matrix, largest_slot, largest_x;
  bool ir_mul;                           // components outside, multiplicity inside
  bool covers, covers_x, covers_weight;  // whether the paths reach all of a row
};

// Features are stored as S.
template <class S>
struct ChannelwiseProduct {
  Paths<Compute<S>> paths;
  const S* x;       // (rows, dim_x)
  const S* y;       // (rows, dim_y)
  const S* weight;  // (rows, dim_weight), or null where no path has weights
  int64_t rows;
  S* out;       // (rows, dim_out)
  bool stream;  // whether it is too large for the caches
};

template <class S>
struct ChannelwiseProductBackward {
  Paths<Compute<S>> paths;
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
