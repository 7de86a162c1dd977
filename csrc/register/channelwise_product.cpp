#include "args/channelwise_product.h"

#include <optional>
#include <tuple>

#include "register/channelwise_operands.h"

namespace equigeo {
namespace {

Tensor channelwise_product_op(
    Tensor x,
    Tensor y,
    std::optional<Tensor> weight,
    Tensor paths,
    Tensor entries,
    Tensor values,
    int64_t dim_out,
    bool ir_mul) {
  EQUIGEO_CHECK(x.dim() == 2, "x must be (rows, components)");
  check_components("dim_out", dim_out);
  const ChannelwiseOperands operands(
      x, y, weight, paths, entries, values, dim_out, ir_mul, x.size(0));
  bool stream = false;
  Tensor out = new_result(operands.x, {x.size(0), dim_out}, &stream);
  if (all_empty({&out})) {
    return out;
  }
  for_storage(operands.x, [&](auto zero) {
    using S = decltype(zero);
    ChannelwiseProduct<S> op{};
    operands.fill(op);
    op.rows = x.size(0);
    op.out = write<S>(out);
    op.stream = stream;
    run(op, operands.x);
  });
  return out;
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
  EQUIGEO_CHECK(grad.dim() == 2, "grad must be (rows, components)");
  EQUIGEO_CHECK(x.dim() == 2, "x must be (rows, components)");
  const int64_t rows = x.size(0);
  const ChannelwiseOperands operands(
      x, y, weight, paths, entries, values, grad.size(1), ir_mul, rows);
  const Tensor& like = operands.x;
  grad = checked("grad", grad, like, like.scalar_type(), {rows, grad.size(1)});
  bool stream_x = false, stream_weight = false;
  Tensor grad_x = new_result(like, {rows, operands.dims.x}, &stream_x);
  Tensor grad_y = new_result(like, {rows, operands.dims.y});
  Tensor grad_weight = operands.new_grad_weight(&stream_weight);
  if (all_empty({&grad_x, &grad_y, &grad_weight})) {
    return {grad_x, grad_y, grad_weight};
  }
  for_storage(like, [&](auto zero) {
    using S = decltype(zero);
    ChannelwiseProductBackward<S> op{};
    op.grad = read<S>(grad);
    operands.fill(op);
    op.rows = rows;
    op.grad_x = write<S>(grad_x);
    op.grad_y = write<S>(grad_y);
    op.grad_weight = op.weight == nullptr ? nullptr : write<S>(grad_weight);
    op.stream_x = stream_x;
    op.stream_weight = stream_weight;
    run(op, operands.x);
  });
  return {grad_x, grad_y, grad_weight};
}

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, EQUIGEO_DEVICE, library) {
  library.impl("channelwise_product", TORCH_BOX(&equigeo::channelwise_product_op));
  library.impl(
      "channelwise_product_backward", TORCH_BOX(&equigeo::channelwise_product_backward_op));
}
