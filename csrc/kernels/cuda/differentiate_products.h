// The three gradients of products of edges, in one pass over the edges of every row of the first
// input; or how they change along tangents of the operands.
#pragma once

#include <type_traits>

#include "kernels/cuda/edge_list.h"
#include "kernels/cuda/operand_tangents.h"
#include "kernels/cuda/plan.h"

namespace equigeo {

template <class S>
struct DifferentiateProducts {
  Plan<Compute<S>> plan;  // with tiles of the first input
  EdgeList edges;
  const S* grad;          // (others, dim_out)
  const S* x;             // (rows, dim_x)
  const S* y;             // (edges, dim_y)
  const S* weight;        // (edges, dim_weight) or null
  int64_t weight_stride;  // dim_weight, or 0 if all rows share one
  S* grad_x;              // (rows, dim_x)
  S* grad_y;              // (edges, dim_y)
  S* grad_weight;         // (edges, dim_weight) or null
  SplineWeights<Compute<S>> spline;
  Compute<S>* grad_position;  // (edges,) or null
  Compute<S>* sums;           // (rows, dim_x), of grad_x over some of the edges, by cut_sums
  bool in_ir_mul;  // the layout of grad and x, which may be another than that of the plan
  OperandTangents<S> tangents;
  bool second;  // whether these are the derivatives along tangents; some may be null then
  bool known;   // whether kernels for the table, if it is the one, have been launched
};

// Where sums are kept before they are complete: with the result, unless that is stored otherwise
// than it is computed.
template <class S>
Compute<S>* cut_sums(S* result, int64_t numbers, Carver& memory) {
  if constexpr (std::is_same_v<S, Compute<S>>) {
    return result;
  } else {
    return memory.take<Compute<S>>(numbers);
  }
}

// Queue the op on a stream; null, or what went wrong.
template <class S>
const char* differentiate_products(const DifferentiateProducts<S>& op, void* stream);

}  // namespace equigeo
