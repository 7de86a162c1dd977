#include <tuple>

#include "ops/fully_connected_arguments.h"
#include "ops/fully_connected_product.h"
#ifdef EQUIGEO_CUDA
#include "ops/cuda/fully_connected_product.h"
#else
#include "ops/cpu/fully_connected_product.h"
#endif

namespace equigeo {
namespace {

template <class T>
void run(FullyConnectedProductBackward<T>& op, const FullyConnectedOperands& operands) {
#ifdef EQUIGEO_CUDA
  check_launch(launch(op, Stream(operands.x).handle()));
#else
  const FullyConnectedPlanner<T> planner(op.table, operands.table);
  op.plan = planner.view();
  run_rows(
      EQUIGEO_KERNELS(fully_connected_product_backward_rows), op, op.rows,
      3 * op.rows * planner.work(), kMixedRows);
#endif
}

std::tuple<Tensor, Tensor, Tensor> fully_connected_product_backward_op(
    Tensor grad, Tensor x, Tensor y, Tensor weight, Tensor paths, Tensor entries, Tensor values) {
  STD_TORCH_CHECK(grad.dim() == 2, "grad must be (rows, components)");
  const FullyConnectedOperands operands(x, y, weight, {x, paths, entries, values}, grad.size(1));
  const Tensor& like = operands.x;
  const PathDims& dims = operands.dims;
  grad = checked("grad", grad, like, like.scalar_type(), {operands.rows, dims.out});
  Tensor grad_x = new_result(like, {operands.rows, dims.x});
  Tensor grad_y = new_result(like, {operands.rows, dims.y});
  Tensor grad_weight = new_result(like, {operands.rows, dims.weight});
  for_dtype(like, [&](auto zero) {
    using T = decltype(zero);
    FullyConnectedProductBackward<T> op{};
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
  library.impl(
      "fully_connected_product_backward", TORCH_BOX(&equigeo::fully_connected_product_backward_op));
}
