#include "args/products.h"

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/warp.cuh"
#include "math/copy_rows.h"

namespace equigeo {
namespace {

template <class T>
__device__ void run_row(const CopywiseProduct<T>& op, int64_t row, const Warp& warp) {
  copywise_row(op, row, warp);
}

template <class T>
__device__ void run_row(const CopywiseProductBackward<T>& op, int64_t row, const Warp& warp) {
  copywise_backward_row(op, row, warp);
}

template <class Op>
__global__ void warp_per_row(const __grid_constant__ Op op) {
  for (int64_t row = first_item() / kWarp; row < op.rows; row += item_stride() / kWarp) {
    run_row(op, row, this_warp());
  }
}

template <class Op>
const char* run(const Op& op, void*, void* stream) {
  launch_threads<Op>(warp_per_row<Op>, op.rows * kWarp, stream, op);
  return launch_error();
}

}  // namespace

EQUIGEO_DEFINE_LAUNCHES(CopywiseProduct)
EQUIGEO_DEFINE_LAUNCHES(CopywiseProductBackward)

}  // namespace equigeo
