#include "kernels/cuda/outside_components.h"

#include "kernels/cuda/launch.cuh"

namespace equigeo {
namespace {

constexpr int kMostComponents = 13;  // of segments that pass through shared memory
constexpr int kWarps = kThreads / kWarp;
constexpr int kResident = 4;  // blocks that a multiprocessor must have registers for: none spills

// Channels of a segment on their way, for each warp. Components are read next to one another: their
// number is odd, in irreps, so that no two channels are in one bank of shared memory.
template <class S>
using Tiles = S[kWarps][kWarp * kMostComponents];

// Lanes write neighbours, but do not read any.
template <class S>
__device__ void move_long_segment(const S* from, int mul, int d, S* to) {
#pragma unroll 1
  for (int i = 0; i < d; ++i) {
#pragma unroll 1
    for (int u = threadIdx.x; u < mul; u += kWarp) {
      to[i * mul + u] = from[u * d + i];
    }
  }
}

// One segment of `mul` channels by a warp, 32 channels at a time: lanes read neighbours, and write
// neighbours.
template <class S>
__device__ void move_segment(const S* from, int mul, int d, S* to) {
  if (d > kMostComponents) {
    return move_long_segment(from, mul, d, to);
  }
  S* tile = static_shared<Tiles<S>>()[threadIdx.y];
#pragma unroll 1
  for (int first = 0; first < mul; first += kWarp) {
    const int channels = mul - first < kWarp ? mul - first : kWarp;
#pragma unroll 1
    for (int n = threadIdx.x; n < channels * d; n += kWarp) {
      tile[n] = from[first * d + n];
    }
    __syncwarp();
#pragma unroll 1
    for (int n = threadIdx.x; n < kWarp * d; n += kWarp) {
      if (static_cast<int>(threadIdx.x) < channels) {
        to[n / kWarp * mul + first + threadIdx.x] = tile[threadIdx.x * d + n / kWarp];
      }
    }
    __syncwarp();  // what is there has been read
  }
}

// A warp for each segment of a row.
template <class S>
__global__ void __launch_bounds__(kThreads, kResident)
    move_segments(Plan<Compute<S>> plan, Side side, const S* from, int64_t rows, S* to) {
  const bool out = side == Side::kOut;
  const int64_t dim = out ? plan.dim_out : plan.dim_x;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    for (int64_t p = threadIdx.y; p < plan.count; p += blockDim.y) {
      const PlannedPath& path = plan.path[p];
      if (out ? path.first_out : path.first_x) {
        const int64_t segment = row * dim + (out ? path.out : path.x);
        move_segment(from + segment, path.mul, out ? path.d3 : path.d1, to + segment);
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
  const dim3 block(kWarp, kWarps);
  launch_kernel(move_segments<S>, grid_of(rows), block, 0, stream, plan, side, from, rows, to);
  return launch_error();
}

template const char* move_components_outside(
    const Plan<float>&, Side, const float*, int64_t, float*, void*);
template const char* move_components_outside(
    const Plan<double>&, Side, const double*, int64_t, double*, void*);
template const char* move_components_outside(
    const Plan<float>&, Side, const Bf16*, int64_t, Bf16*, void*);

}  // namespace equigeo
