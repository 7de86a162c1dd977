// Arguments of the ops, for any device: contiguous arrays whose sizes have been checked.
//
// Convolutions are products of rows whose x has a row for each source and whose result has one for
// each target; y and weights have one for each edge.
#pragma once

#include "args/graph.h"
#include "args/products.h"

namespace equigeo {

// Weights of edges that are linear in a few numbers of each edge: hidden @ matrix. `weight` is null
// then.
template <class T>
struct RadialWeights {
  const T* hidden;  // (edges, num_hidden) or null
  const T* matrix;  // (num_hidden, stride)
  int64_t num_hidden;
  int64_t stride;  // dim_weight; in kernels on the CPU padded to whole registers
};

constexpr int64_t kMostFunctions = 16;  // of a spline that are not zero at the same place

// Weights of edges that are splines: start[first] + functions(position) @ steps[first : first +
// functions], where function n has the coefficient basis[k, n] of position^k. `weight` is null
// then.
template <class T>
struct SplineWeights {
  const T* position;     // (edges,) or null
  const int64_t* first;  // (edges,)
  const T* basis;        // (functions + 1, basis_stride)
  const T* matrix;       // (2, rows, stride), starts and steps
  int64_t functions, rows, stride;
  int64_t basis_stride;  // functions; in kernels on the CPU padded to whole registers
};

template <class S>
struct ChannelwiseConv : ProductForward<S> {
  Graph graph;
  RadialWeights<Compute<S>> radial;
  SplineWeights<Compute<S>> spline;
};

template <class S>
struct ChannelwiseConvBackward : ProductBackward<S> {
  Graph graph;
  SplineWeights<Compute<S>> spline;
  Compute<S>* grad_position;  // (edges,) or null
};

template <class S>
struct ChannelwiseConvDoubleBackward : ProductDoubleBackward<S> {
  Graph graph;
};

}  // namespace equigeo
