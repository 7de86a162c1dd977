// Compiled once per instruction set: no torch, no C++ standard headers.
#include "ops/cpu/symmetric_eigen.h"

#include "math/symmetric_eigen_row.h"

namespace equigeo {
namespace {

template <class T>
int diagonalise_rows(const SymmetricEigen<T>& op, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    op.size == 2 ? diagonalise<T, 2>(op, i) : diagonalise<T, 3>(op, i);
  }
  return 0;
}

}  // namespace

const Kernels<SymmetricEigen> EQUIGEO_FOR_ISA(symmetric_eigen_rows) = {
    diagonalise_rows<float>, diagonalise_rows<double>};

}  // namespace equigeo
