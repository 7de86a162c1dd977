// Arguments of the op, for any device: contiguous arrays whose sizes have been checked.
#pragma once

#include "ops/channelwise_product.h"

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

template <class T>
struct ChannelwiseConv {
  Paths<T> paths;
  Graph graph;
  const T* x;       // (sources, dim_x); in kernels on the CPU (sources, padded_x)
  const T* y;       // (edges, dim_y)
  const T* weight;  // (edges, dim_weight) or null
  T* out;           // (targets, dim_out)

  // Where weights are linear in a few hidden numbers of each edge, `weight` is null and they are
  // hidden @ radial.
  const T* hidden;        // (edges, num_hidden) or null
  const T* radial;        // (num_hidden, radial_stride)
  int64_t num_hidden;
  int64_t radial_stride;  // dim_weight; in kernels on the CPU padded to whole registers
};

template <class T>
struct ChannelwiseConvBackward {
  Paths<T> paths;
  Graph graph;
  const T* grad;    // (targets, dim_out); in kernels on the CPU (targets, padded_out)
  const T* x;       // (sources, dim_x); in kernels on the CPU (sources, padded_x)
  const T* y;       // (edges, dim_y)
  const T* weight;  // (edges, dim_weight) or null
  T* grad_x;        // (sources, dim_x)
  T* grad_y;        // (edges, dim_y)
  T* grad_weight;   // (edges, dim_weight) or null
};

// Rows of a tensor brought into the layout of kernels.
template <class T>
struct PadRows {
  Paths<T> paths;
  const T* from;
  T* to;
  bool output;  // rows of the output, not of the first input
};

}  // namespace equigeo
