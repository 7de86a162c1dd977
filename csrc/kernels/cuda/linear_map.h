// A linear map of rows whose plan is made, or the gradient of its input, which is another such map.
#pragma once

#include "kernels/cuda/linear_plan.h"

namespace equigeo {

template <class S>
struct LinearMap {
  LinearPlan<Compute<S>> plan;
  const S* in;            // (groups * group, dim_in)
  const S* weight;        // (groups, dim_weight)
  int64_t groups, group;  // groups of rows, and the rows of each
  int64_t dim_in, dim_out;
  S* out;  // (groups * group, dim_out)
};

// Queue the map on a stream; null, or what went wrong.
template <class S>
const char* map_rows(const LinearMap<S>& op, void* stream);

}  // namespace equigeo
