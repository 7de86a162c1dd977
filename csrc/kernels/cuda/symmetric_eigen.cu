#include "args/symmetric_eigen.h"

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launch.h"
#include "math/symmetric_eigen_row.h"

namespace equigeo {
namespace {

// One thread per matrix.
template <class T, int D>
__global__ void diagonalise_rows(SymmetricEigen<T> op) {
  for (int64_t i = first_item(); i < op.count; i += item_stride()) {
    diagonalise<double, T, D>(op, i, 1);
  }
}

template <class T>
const char* run(const SymmetricEigen<T>& op, void*, void* stream) {
  launch_threads(
      op.size == 2 ? diagonalise_rows<T, 2> : diagonalise_rows<T, 3>, op.count, stream, op);
  return launch_error();
}

}  // namespace

EQUIGEO_DEFINE_LAUNCHES(SymmetricEigen)

}  // namespace equigeo
