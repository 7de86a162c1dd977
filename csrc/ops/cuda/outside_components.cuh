// Rows with components inside, brought into the layout with components outside.
//
// A convolution reads every row once per edge. Copied once, lanes read neighbours each time.
#pragma once

#include "ops/cuda/plan.cuh"

namespace equigeo {
namespace {

// What lies in no segment is not copied.
template <class T>
__global__ void __launch_bounds__(kThreads)
    move_components_outside(Plan<T> plan, Side side, const T* from, T* to, int64_t rows) {
  const bool out = side == Side::kOut;
  const int64_t dim = out ? plan.dim_out : plan.dim_x;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    for (int64_t p = threadIdx.y; p < plan.count; p += blockDim.y) {
      const PlannedPath& path = plan.path[p];
      if (!(out ? path.first_out : path.first_x)) {
        continue;
      }
      const int d = out ? path.d3 : path.d1;
      const int64_t segment = row * dim + (out ? path.out : path.x);
      for (int i = 0; i < d; ++i) {
        for (int u = threadIdx.x; u < path.mul; u += kWarp) {
          to[segment + i * path.mul + u] = from[segment + u * d + i];
        }
      }
    }
  }
}

template <class T>
void launch_outside(
    const Plan<T>& plan, Side side, const T* from, T* to, int64_t rows, void* stream) {
  if (rows == 0) {
    return;
  }
  const unsigned blocks = static_cast<unsigned>(rows < kMostBlocks ? rows : kMostBlocks);
  const dim3 block(kWarp, kThreads / kWarp);
  move_components_outside<<<blocks, block, 0, static_cast<cudaStream_t>(stream)>>>(
      plan, side, from, to, rows);
}

}  // namespace
}  // namespace equigeo
