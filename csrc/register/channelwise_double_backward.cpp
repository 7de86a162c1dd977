#include <tuple>

#include "register/channelwise_operands.h"
#include "register/graph_tensors.h"
#include "register/second_derivatives.h"

namespace equigeo {
namespace {

std::tuple<Tensor, Tensor, Tensor, Tensor> channelwise_product_double_backward_op(
    Tensor grad,
    Tensor x,
    Tensor y,
    Optional weight,
    Optional x_tangent,
    Optional y_tangent,
    Optional weight_tangent,
    Tensor paths,
    Tensor entries,
    Tensor values,
    bool ir_mul,
    bool by_grad,
    bool by_x,
    bool by_y,
    bool by_weight) {
  EQUIGEO_CHECK(grad.dim() == 2, "grad must be (rows, components)");
  EQUIGEO_CHECK(x.dim() == 2, "x must be (rows, components)");
  const int64_t rows = x.size(0);
  const ChannelwiseOperands operands(
      x, y, weight, paths, entries, values, grad.size(1), ir_mul, rows);
  const Tensor& like = operands.x;
  grad = checked("grad", grad, like, like.scalar_type(), {rows, grad.size(1)});
  const Form form{grad, operands.x, operands.y, operands.weight};
  const Tangents tangents(form, x_tangent, y_tangent, weight_tangent);
  const Slopes slopes(form, by_grad, by_x, by_y, by_weight);
  if (slopes.empty()) {
    return slopes.all();
  }
  for_storage(like, [&](auto zero) {
    using S = decltype(zero);
    ChannelwiseProductDoubleBackward<S> op{};
    op.grad = read<S>(grad);
    operands.fill(op);
    tangents.fill(op);
    op.rows = rows;
    slopes.fill(op);
    op.stream = slopes.stream;
    run(op, like);
  });
  return slopes.all();
}

std::tuple<Tensor, Tensor, Tensor, Tensor> channelwise_conv_double_backward_op(
    Tensor grad,
    Tensor x,
    Tensor y,
    Optional weight,
    Optional x_tangent,
    Optional y_tangent,
    Optional weight_tangent,
    Tensor source,
    Tensor ptr,
    Tensor order,
    Tensor target,
    Tensor back_order,
    Tensor back_ptr,
    Tensor paths,
    Tensor entries,
    Tensor values,
    bool ir_mul,
    bool by_grad,
    bool by_x,
    bool by_y,
    bool by_weight) {
  EQUIGEO_CHECK(y.dim() == 2, "y must be (edges, components)");
  EQUIGEO_CHECK(grad.dim() == 2, "grad must be (targets, components)");
  const ChannelwiseOperands operands(
      x, y, weight, paths, entries, values, grad.size(1), ir_mul, y.size(0));
  const Tensor& like = operands.x;
  const GraphTensors graph(like, operands.y, source, ptr, order, target, back_order, back_ptr);
  const int64_t targets = graph.sizes.targets;
  grad = checked("grad", grad, like, like.scalar_type(), {targets, grad.size(1)});
  const Form form{grad, operands.x, operands.y, operands.weight};
  const Tangents tangents(form, x_tangent, y_tangent, weight_tangent);
  const Slopes slopes(form, by_grad, by_x, by_y, by_weight);
  if (slopes.empty()) {
    return slopes.all();
  }
  for_storage(like, [&](auto zero) {
    using S = decltype(zero);
    ChannelwiseConvDoubleBackward<S> op{};
    op.graph = graph.view();
    op.grad = read<S>(grad);
    operands.fill(op);
    tangents.fill(op);
    slopes.fill(op);
    run(op, like);
  });
  return slopes.all();
}

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, EQUIGEO_DEVICE, library) {
  library.impl(
      "channelwise_product_double_backward",
      TORCH_BOX(&equigeo::channelwise_product_double_backward_op));
  library.impl(
      "channelwise_conv_double_backward", TORCH_BOX(&equigeo::channelwise_conv_double_backward_op));
}
