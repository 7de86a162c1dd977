// Compiled once per instruction set: no torch, no C++ standard headers.
#include "kernels/cpu/kernels.h"

#include "kernels/cpu/pack.h"
#include "math/symmetric_eigen_row.h"

namespace equigeo {
namespace {

template <class T>
int diagonalise_rows(const SymmetricEigen<T>& op, int64_t begin, int64_t end) {
  using Pack = WidePack<double>;
  constexpr int64_t kLanesOfPack = kWidth<Pack, double>;
  for (int64_t i = begin; i < end; i += kLanesOfPack) {
    const int count = static_cast<int>(end - i < kLanesOfPack ? end - i : kLanesOfPack);
    op.size == 2 ? diagonalise<Pack, T, 2>(op, i, count) : diagonalise<Pack, T, 3>(op, i, count);
  }
  return 0;
}

}  // namespace

const Kernels<SymmetricEigen> EQUIGEO_FOR_ISA(symmetric_eigen_rows) = {
    diagonalise_rows<float>, diagonalise_rows<double>};

}  // namespace equigeo
