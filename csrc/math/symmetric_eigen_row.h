// One matrix of the op.
#pragma once

#include "math/symmetric_eigen.h"
#include "ops/symmetric_eigen.h"

namespace equigeo {
namespace {

template <class T, int D>
EQUIGEO_HOST_DEVICE void diagonalise(const SymmetricEigen<T>& op, int64_t i) {
  const T* matrix = op.matrix + i * D * D;
  double lower[D * (D + 1) / 2], none = 0;
  for (int r = 0, at = 0; r < D; ++r) {
    for (int c = 0; c <= r; ++c, ++at) {
      lower[at] = 0.5 * matrix[r * D + c] + 0.5 * matrix[c * D + r];
      none += lower[at] * 0;
    }
  }
  Eigen<D> eigen;
  solve(lower, eigen);
  fix_signs(eigen);
  for (int k = 0; k < D; ++k) {
    op.values[i * D + k] = static_cast<T>(eigen.value[k] + none);
    for (int r = 0; r < D; ++r) {
      op.vectors[(i * D + r) * D + k] = static_cast<T>(eigen.vector[k][r] + none);
    }
  }
}

}  // namespace
}  // namespace equigeo
