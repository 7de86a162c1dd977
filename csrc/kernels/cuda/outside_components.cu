#include "kernels/cuda/outside_components.h"

#include "kernels/cuda/launch.cuh"

namespace equigeo {
namespace {

// A warp for each segment of a row.
template <class S>
__global__ void __launch_bounds__(kThreads)
    move_segments(Plan<Compute<S>> plan, Side side, const S* from, int64_t rows, S* to) {
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

}  // namespace

template <class S>
const char* move_components_outside(
    const Plan<Compute<S>>& plan, Side side, const S* from, int64_t rows, S* to, void* stream) {
  if (rows == 0) {
    return nullptr;
  }
  const dim3 grid(static_cast<unsigned>(rows < kMostBlocks ? rows : kMostBlocks));
  const dim3 block(kWarp, kThreads / kWarp);
  launch_kernel(move_segments<S>, grid, block, 0, stream, plan, side, from, rows, to);
  return launch_error();
}

template const char* move_components_outside(
    const Plan<float>&, Side, const float*, int64_t, float*, void*);
template const char* move_components_outside(
    const Plan<double>&, Side, const double*, int64_t, double*, void*);
template const char* move_components_outside(
    const Plan<float>&, Side, const Bf16*, int64_t, Bf16*, void*);

}  // namespace equigeo
