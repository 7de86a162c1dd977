#include "args/symmetric_eigen.h"

#include <tuple>

#include "register/device.h"
#include "register/tensors.h"

namespace equigeo {
namespace {

std::tuple<Tensor, Tensor> symmetric_eigen_op(Tensor matrix) {
  EQUIGEO_CHECK(matrix.dim() == 3, "matrix must be (batch, n, n)");
  const int64_t count = matrix.size(0), size = matrix.size(1);
  EQUIGEO_CHECK(size == 2 || size == 3, "matrix must have 2 or 3 rows");
  matrix = checked("matrix", matrix, matrix, matrix.scalar_type(), {count, size, size});
  Tensor values = new_tensor(matrix, {count, size});
  Tensor vectors = new_tensor(matrix, {count, size, size});
  for_dtype(matrix, [&](auto zero) {
    using T = decltype(zero);
    const SymmetricEigen<T> op{count, size, read<T>(matrix), write<T>(values), write<T>(vectors)};
    run(op, matrix);
  });
  return {values, vectors};
}

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, EQUIGEO_DEVICE, library) {
  library.impl("symmetric_eigen", TORCH_BOX(&equigeo::symmetric_eigen_op));
}
