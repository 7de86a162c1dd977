// Some matrices of the op, one in each lane.
#pragma once

#include "args/symmetric_eigen.h"
#include "math/symmetric_eigen.h"

namespace equigeo {
namespace {

template <class Pack, class T, int D>
EQUIGEO_HOST_DEVICE void diagonalise(const SymmetricEigen<T>& op, int64_t first, int count) {
  Pack lower[D * (D + 1) / 2] = {}, none = {};
  for (int l = 0; l < count; ++l) {
    const T* matrix = op.matrix + (first + l) * D * D;
    for (int r = 0, at = 0; r < D; ++r) {
      for (int c = 0; c <= r; ++c, ++at) {
        lane(lower, at, l) = 0.5 * matrix[r * D + c] + 0.5 * matrix[c * D + r];
      }
    }
  }
  for (int at = 0; at < D * (D + 1) / 2; ++at) {
    none += lower[at] * 0;  // NaN for what is not finite
  }
  Eigen<Pack, D> eigen;
  solve(lower, eigen);
  eigen.fix_signs();
  for (int k = 0; k < D; ++k) {
    eigen.value[k] += none;
    for (int r = 0; r < D; ++r) {
      eigen.vector[k][r] += none;
    }
  }
  for (int l = 0; l < count; ++l) {
    const int64_t i = first + l;
    for (int k = 0; k < D; ++k) {
      op.values[i * D + k] = static_cast<T>(lane(eigen.value, k, l));
      for (int r = 0; r < D; ++r) {
        op.vectors[(i * D + r) * D + k] = static_cast<T>(lane(eigen.vector[k], r, l));
      }
    }
  }
}

}  // namespace
}  // namespace equigeo
