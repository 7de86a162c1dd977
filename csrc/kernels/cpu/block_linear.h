// A linear map by blocks in the form of its kernels: padded matrices, and blocks sorted by what
// they add to. The gradient of the input is such a map too, by the transposed matrices.
#pragma once

#include "args/block_linear.h"
#include "kernels/cpu/isa.h"

namespace equigeo {

struct MatrixBlock {
  LinearBlock given;
  int64_t matrix;    // where its padded matrix begins among those of a group
  bool first, last;  // of the blocks that add to a segment of the output
};

template <class T>
struct LinearPlan {
  const MatrixBlock* block;
  const T* factor;  // of each block, in this order
  int64_t count;
  int64_t matrices;                 // numbers in the padded matrices of a group
  int64_t largest_d;                // components of a block
  int64_t largest_in, largest_out;  // padded copies of a block
  bool ir_mul, covers;              // whether the blocks reach all of the output
};

// Pads the matrices of groups, whose weights may be those of the transposed map.
template <class S>
struct PackMatrices {
  LinearPlan<Compute<S>> plan;
  const S* weight;
  int64_t dim_weight;
  bool transposed;
  Compute<S>* matrices;
};

template <class S>
struct MapRows {
  LinearPlan<Compute<S>> plan;
  const S* in;
  int64_t dim_in;
  const Compute<S>* matrices;
  int64_t group;  // rows that share matrices
  S* out;
  int64_t dim_out;
};

constexpr int64_t kMappedRows = 24;  // rows of a tensor that are multiplied together
constexpr int64_t kWeightRows = 48;  // rows of a matrix whose gradient is one task

// Tasks of one group, each some rows of the matrix of a block.
struct WeightTask {
  int64_t block, first;
};

template <class S>
struct LinearWeightGradient {
  LinearPlan<Compute<S>> plan;
  const WeightTask* task;
  int64_t tasks;
  const S* in;
  int64_t dim_in;
  const S* grad;
  int64_t dim_out;
  int64_t group;
  S* grad_weight;
  int64_t dim_weight;
};

EQUIGEO_DECLARE_KERNELS(PackMatrices, pack_matrices_groups);
EQUIGEO_DECLARE_KERNELS(MapRows, map_rows);
EQUIGEO_DECLARE_KERNELS(LinearWeightGradient, linear_weight_gradient_tasks);

}  // namespace equigeo
