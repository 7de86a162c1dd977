// Arguments of the ops, for any device: contiguous arrays whose sizes have been checked.
#pragma once

#include "args/path_table.h"
#include "args/storage.h"

namespace equigeo {

// Edges sorted by target, and the same edges listed by source. Positions count sorted edges; rows
// of per-edge features are in the order in which the edges were given.
struct Graph {
  const int64_t* source;      // (edges,) of each position
  const int64_t* ptr;         // (targets + 1,)
  const int64_t* order;       // (edges,) row of each position
  const int64_t* target;      // (edges,) of each position
  const int64_t* back_order;  // (edges,) positions by source
  const int64_t* back_ptr;    // (sources + 1,)
  int64_t sources, targets, edges;
};

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

// Weights of edges that are splines: basis(position) @ matrix[first : first + functions], where
// basis function n has the coefficient basis[k, n] of position^k. `weight` is null then.
template <class T>
struct SplineWeights {
  const T* position;     // (edges,) or null
  const int64_t* first;  // (edges,)
  const T* basis;        // (functions, functions)
  const T* matrix;       // (rows, stride)
  int64_t functions, rows, stride;
};

template <class S>
struct ChannelwiseConv {
  using T = Compute<S>;
  PathTable<T> table;
  Graph graph;
  const S* x;             // (sources, dim_x)
  const S* y;             // (edges, dim_y)
  const S* weight;        // (edges, dim_weight) or null
  int64_t weight_stride;  // dim_weight, or 0 if all rows share one
  S* out;                 // (targets, dim_out)

  RadialWeights<T> radial;
  SplineWeights<T> spline;  // on the CPU alone
};

template <class S>
struct ChannelwiseConvBackward {
  using T = Compute<S>;
  PathTable<T> table;
  Graph graph;
  const S* grad;          // (targets, dim_out)
  const S* x;             // (sources, dim_x)
  const S* y;             // (edges, dim_y)
  const S* weight;        // (edges, dim_weight) or null
  int64_t weight_stride;  // dim_weight, or 0 if all rows share one
  S* grad_x;              // (sources, dim_x)
  S* grad_y;              // (edges, dim_y)
  S* grad_weight;         // (edges, dim_weight) or null
  bool stream_weight;     // whether grad_weight is too large for the caches

  SplineWeights<T> spline;  // on the CPU alone
  T* grad_position;         // (edges,) or null
};

// Derivatives of the gradients, along tangents that are null where they are zero. Results that are
// null are not wanted.
template <class S>
struct ChannelwiseConvDoubleBackward {
  using T = Compute<S>;
  PathTable<T> table;
  Graph graph;
  const S* grad;          // (targets, dim_out)
  const S* x;             // (sources, dim_x)
  const S* y;             // (edges, dim_y)
  const S* weight;        // (edges, dim_weight) or null
  int64_t weight_stride;  // dim_weight, or 0 if all rows share one
  const S* x_tangent;
  const S* y_tangent;
  const S* weight_tangent;
  S* to_grad;
  S* to_x;
  S* to_y;
  S* to_weight;
};

}  // namespace equigeo
