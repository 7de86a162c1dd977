#include <tuple>

#include "ops/copywise_arguments.h"
#include "ops/copywise_product.h"
#ifdef EQUIGEO_CUDA
#include "ops/cuda/copywise_product.h"
#else
#include "ops/cpu/copywise_product.h"
#endif

namespace equigeo {
namespace {

template <class T>
void run(CopywiseProductBackward<T>& op, const CopywiseOperands& operands) {
#ifdef EQUIGEO_CUDA
  check_launch(launch(op, Stream(operands.x).handle()));
#else
  const CopyPlanner<T> planner(op.table, operands.table.values.size(0));
  op.plan = planner.view();
  run_rows(
      EQUIGEO_KERNELS(copywise_product_backward_rows), op, op.rows, 3 * op.rows * planner.work(),
      kCopyRows);
#endif
}

std::tuple<Tensor, Tensor, Tensor> copywise_product_backward_op(
    Tensor grad,
    Tensor x,
    Tensor y,
    std::optional<Tensor> weight,
    Tensor paths,
    Tensor entries,
    Tensor values) {
  STD_TORCH_CHECK(grad.dim() == 2, "grad must be (rows, components)");
  const CopywiseOperands operands(x, y, weight, {x, paths, entries, values}, grad.size(1));
  const Tensor& like = operands.x;
  grad = checked("grad", grad, like, like.scalar_type(), {operands.rows, grad.size(1)});
  Tensor grad_x = new_result(like, {operands.rows, operands.dims.x});
  Tensor grad_y = new_result(like, {operands.rows, operands.dims.y});
  Tensor grad_weight =
      new_result(like, {weight.has_value() ? operands.rows : 0, operands.dims.weight});
  for_dtype(like, [&](auto zero) {
    using T = decltype(zero);
    CopywiseProductBackward<T> op{};
    operands.fill(op);
    op.grad = read<T>(grad);
    op.grad_x = write<T>(grad_x);
    op.grad_y = write<T>(grad_y);
    op.grad_weight = write<T>(grad_weight);
    run(op, operands);
  });
  return {grad_x, grad_y, grad_weight};
}

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, EQUIGEO_DEVICE, library) {
  library.impl("copywise_product_backward", TORCH_BOX(&equigeo::copywise_product_backward_op));
}
