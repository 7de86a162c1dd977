#include "ops/harmonics_arguments.h"

namespace equigeo {
namespace {

Tensor spherical_harmonics_backward_op(
    Tensor grad, Tensor x, Tensor table, std::vector<int64_t> degrees, bool normalize) {
  const HarmonicsOperands operands(x, table, degrees, normalize);
  const Tensor& like = operands.x;
  grad = checked("grad", grad, like, like.scalar_type(), {operands.points, operands.dim});
  Tensor grad_x = new_result(like, {operands.points, 3});
  for_dtype(like, [&](auto zero) {
    using T = decltype(zero);
    auto op = operands.start<SphericalHarmonicsBackward, T>();
    op.grad = read<T>(grad);
    op.grad_x = write<T>(grad_x);
#ifdef EQUIGEO_CUDA
    check_launch(launch(op, Stream(like).handle()));
#else
    run_rows(
        EQUIGEO_KERNELS(spherical_harmonics_backward_rows), op, op.points, 2 * operands.work(),
        kLeastPoints);
#endif
  });
  return grad_x;
}

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, EQUIGEO_DEVICE, library) {
  library.impl(
      "spherical_harmonics_backward", TORCH_BOX(&equigeo::spherical_harmonics_backward_op));
}
