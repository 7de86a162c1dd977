#include "args/products.h"

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/warp.cuh"
#include "math/mixing_rows.h"

namespace equigeo {
namespace {

constexpr int kTile = 160;  // couplings of a warp at a time

template <class T>
__device__ void run_row(
    const FullyConnectedProduct<T>& op,
    int64_t row,
    const CouplingTile<T>& tile,
    const Warp& warp) {
  fully_connected_row(op, row, tile, warp);
}

template <class T>
__device__ void run_row(
    const FullyConnectedProductBackward<T>& op,
    int64_t row,
    const CouplingTile<T>& tile,
    const Warp& warp) {
  fully_connected_backward_row(op, row, tile, warp);
}

template <template <class> class Op, class T>
__global__ void warp_per_row(const __grid_constant__ Op<T> op) {
  T(*own)[kTile] = static_shared<T[kThreads / kWarp][2][kTile]>()[threadIdx.x / kWarp];
  for (int64_t row = first_item() / kWarp; row < op.rows; row += item_stride() / kWarp) {
    run_row(op, row, CouplingTile<T>{own[0], own[1], kTile}, this_warp());
  }
}

template <template <class> class Op, class T>
const char* run(const Op<T>& op, void*, void* stream) {
  launch_threads<Op<T>>(warp_per_row<Op, T>, op.rows * kWarp, stream, op);
  return launch_error();
}

}  // namespace

EQUIGEO_DEFINE_LAUNCHES(FullyConnectedProduct)
EQUIGEO_DEFINE_LAUNCHES(FullyConnectedProductBackward)

}  // namespace equigeo
