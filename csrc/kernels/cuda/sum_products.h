// Products of edges, added up at the rows of the output.
#pragma once

#include "kernels/cuda/edge_list.h"
#include "kernels/cuda/operand_tangents.h"
#include "kernels/cuda/plan.h"

namespace equigeo {

template <class S>
struct SumProducts {
  Plan<Compute<S>> plan;  // with tiles of the output
  EdgeList edges;
  const S* x;             // (others, dim_x)
  const S* y;             // (edges, dim_y)
  const S* weight;        // (edges, dim_weight) or null
  int64_t weight_stride;  // dim_weight, or 0 if all rows share one
  S* out;                 // (rows, dim_out)
  RadialWeights<Compute<S>> radial;
  SplineWeights<Compute<S>> spline;
  bool x_ir_mul;  // the layout of x, which may be another than that of the plan
  OperandTangents<S> tangents;
  bool second;  // whether these are the derivatives along tangents
  bool known;   // whether a kernel for the table, if it is the one, has been launched
};

// Queue the sums on a stream; null, or what went wrong.
template <class S>
const char* sum_products(const SumProducts<S>& op, void* stream);

// Queue the kernel that is for a table of these sizes, if there is one. Whether it is that table is
// known on the device alone: it or the kernel of all tables has nothing to do.
bool sum_targets(const SumProducts<float>& op, void* stream);

}  // namespace equigeo
