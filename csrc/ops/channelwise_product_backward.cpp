#include <tuple>

#include "ops/channelwise_arguments.h"
#include "ops/channelwise_product.h"
#ifdef EQUIGEO_CUDA
#include "ops/cuda/channelwise_product.h"
#else
#include "ops/cpu/channelwise_product.h"
#endif

namespace equigeo {
namespace {

template <class S>
void run(ChannelwiseProductBackward<S> op, Operands& operands) {
#ifdef EQUIGEO_CUDA
  op.paths = view<Compute<S>>(operands.table, operands.dims, operands.ir_mul);
  launch_with_scratch(op, operands.x);
#else
  op.paths = plan<Compute<S>>(operands.table, operands.dims, operands.ir_mul);
  run_rows(
      EQUIGEO_KERNELS(channelwise_product_backward_rows), op, op.rows,
      2 * op.rows * work_per_row(op.paths), kBlock);
#endif
}

std::tuple<Tensor, Tensor, Tensor> channelwise_product_backward_op(
    Tensor grad,
    Tensor x,
    Tensor y,
    std::optional<Tensor> weight,
    Tensor paths,
    Tensor entries,
    Tensor values,
    bool ir_mul) {
  STD_TORCH_CHECK(grad.dim() == 2, "grad must be (rows, components)");
  STD_TORCH_CHECK(x.dim() == 2, "x must be (rows, components)");
  const int64_t rows = x.size(0);
  Operands operands(x, y, weight, paths, entries, values, ir_mul, rows);
  const Tensor& like = operands.x;
  operands.dims.out = grad.size(1);
  grad = checked("grad", grad, like, like.scalar_type(), {rows, grad.size(1)});
  Tensor grad_x = new_result(like, {rows, operands.dims.x});
  Tensor grad_y = new_result(like, {rows, operands.dims.y});
  Tensor grad_weight = operands.new_grad_weight();
  for_storage(like, [&](auto zero) {
    using S = decltype(zero);
    ChannelwiseProductBackward<S> op{};
    op.grad = read<S>(grad);
    op.x = read<S>(operands.x);
    op.y = read<S>(operands.y);
    op.weight = operands.weights<S>();
    op.rows = rows;
    op.grad_x = write<S>(grad_x);
    op.grad_y = write<S>(grad_y);
    op.grad_weight = op.weight == nullptr ? nullptr : write<S>(grad_weight);
    run(op, operands);
  });
  return {grad_x, grad_y, grad_weight};
}

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, EQUIGEO_DEVICE, library) {
  library.impl(
      "channelwise_product_backward", TORCH_BOX(&equigeo::channelwise_product_backward_op));
}
