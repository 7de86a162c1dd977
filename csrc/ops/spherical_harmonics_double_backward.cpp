#include <tuple>

#include "ops/harmonics_arguments.h"

namespace equigeo {
namespace {

std::tuple<Tensor, Tensor> spherical_harmonics_double_backward_op(
    Tensor along,
    Tensor grad,
    Tensor x,
    Tensor table,
    std::vector<int64_t> degrees,
    bool normalize) {
  const HarmonicsOperands operands(x, table, degrees, normalize);
  const Tensor& like = operands.x;
  const int64_t points = operands.points, dim = operands.dim;
  along = checked("along", along, like, like.scalar_type(), {points, 3});
  grad = checked("grad", grad, like, like.scalar_type(), {points, dim});
  Tensor to_grad = new_result(like, {points, dim});
  Tensor to_x = new_result(like, {points, 3});
  for_dtype(like, [&](auto zero) {
    using T = decltype(zero);
    auto op = operands.start<SphericalHarmonicsDoubleBackward, T>();
    op.along = read<T>(along);
    op.grad = read<T>(grad);
    op.to_grad = write<T>(to_grad);
    op.to_x = write<T>(to_x);
#ifdef EQUIGEO_CUDA
    check_launch(launch(op, Stream(like).handle()));
#else
    run_rows(
        EQUIGEO_KERNELS(spherical_harmonics_double_backward_rows), op, points,
        4 * operands.work(), kLeastPoints);
#endif
  });
  return {to_grad, to_x};
}

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, EQUIGEO_DEVICE, library) {
  library.impl(
      "spherical_harmonics_double_backward",
      TORCH_BOX(&equigeo::spherical_harmonics_double_backward_op));
}
