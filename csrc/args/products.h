// Arguments of products of rows, for any device: contiguous arrays whose sizes have been checked.
#pragma once

#include "args/path_table.h"
#include "args/storage.h"

namespace equigeo {

// What all ops of a product read. Features are stored as S.
template <class S>
struct ProductInputs {
  PathTable<Compute<S>> table;
  const S* x;             // (rows, dim_x)
  const S* y;             // (rows, dim_y)
  const S* weight;        // (rows, dim_weight), or null where no path has weights
  int64_t weight_stride;  // dim_weight, or 0 if all rows share one
  int64_t rows;
};

template <class S>
struct ProductForward : ProductInputs<S> {
  S* out;       // (rows, dim_out)
  bool stream;  // whether it is too large for the caches
};

template <class S>
struct ProductBackward : ProductInputs<S> {
  const S* grad;  // (rows, dim_out)
  S* grad_x;
  S* grad_y;
  S* grad_weight;                // (rows, dim_weight), or null where it is not wanted
  bool stream_x, stream_weight;  // whether these are too large for the caches
};

// Derivatives of the gradients, along tangents that are null where they are zero. Results that are
// null are not wanted.
template <class S>
struct ProductDoubleBackward : ProductInputs<S> {
  const S* grad;  // (rows, dim_out)
  const S* x_tangent;
  const S* y_tangent;
  const S* weight_tangent;  // (rows, dim_weight), of every row
  S* to_grad;
  S* to_x;
  S* to_y;
  S* to_weight;
  bool stream;  // whether to_grad is too large for the caches
};

template <class S>
struct ChannelwiseProduct : ProductForward<S> {};
template <class S>
struct ChannelwiseProductBackward : ProductBackward<S> {};
template <class S>
struct ChannelwiseProductDoubleBackward : ProductDoubleBackward<S> {};

template <class T>
struct CopywiseProduct : ProductForward<T> {};
template <class T>
struct CopywiseProductBackward : ProductBackward<T> {};
template <class T>
struct CopywiseProductDoubleBackward : ProductDoubleBackward<T> {};

template <class T>
struct FullyConnectedProduct : ProductForward<T> {};
template <class T>
struct FullyConnectedProductBackward : ProductBackward<T> {};
template <class T>
struct FullyConnectedProductDoubleBackward : ProductDoubleBackward<T> {};

}  // namespace equigeo
