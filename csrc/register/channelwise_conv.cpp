#include "args/channelwise_conv.h"

#include <optional>
#include <tuple>

#include "register/channelwise_operands.h"
#include "register/graph_tensors.h"

namespace equigeo {
namespace {

Tensor channelwise_conv_op(
    Tensor x,
    Tensor y,
    std::optional<Tensor> weight,
    Tensor source,
    Tensor ptr,
    Tensor order,
    Tensor target,
    Tensor back_order,
    Tensor back_ptr,
    Tensor paths,
    Tensor entries,
    Tensor values,
    int64_t dim_out,
    bool ir_mul) {
  check_components("dim_out", dim_out);
  EQUIGEO_CHECK(y.dim() == 2, "y must be (edges, components)");
  const ChannelwiseOperands operands(
      x, y, weight, paths, entries, values, dim_out, ir_mul, y.size(0));
  const GraphTensors graph(
      operands.x, operands.y, source, ptr, order, target, back_order, back_ptr);
  Tensor out = new_result(operands.x, {graph.sizes.targets, dim_out});
  if (all_empty({&out})) {
    return out;
  }
  for_storage(operands.x, [&](auto zero) {
    using S = decltype(zero);
    ChannelwiseConv<S> op{};
    op.graph = graph.view();
    operands.fill(op);
    op.out = write<S>(out);
    run(op, operands.x);
  });
  return out;
}

std::tuple<Tensor, Tensor, Tensor> channelwise_conv_backward_op(
    Tensor grad,
    Tensor x,
    Tensor y,
    std::optional<Tensor> weight,
    Tensor source,
    Tensor ptr,
    Tensor order,
    Tensor target,
    Tensor back_order,
    Tensor back_ptr,
    Tensor paths,
    Tensor entries,
    Tensor values,
    bool ir_mul) {
  EQUIGEO_CHECK(y.dim() == 2, "y must be (edges, components)");
  EQUIGEO_CHECK(grad.dim() == 2, "grad must be (targets, components)");
  const ChannelwiseOperands operands(
      x, y, weight, paths, entries, values, grad.size(1), ir_mul, y.size(0));
  const Tensor& like = operands.x;
  const GraphTensors graph(like, operands.y, source, ptr, order, target, back_order, back_ptr);
  grad = checked("grad", grad, like, like.scalar_type(), {graph.sizes.targets, grad.size(1)});
  Tensor grad_x = new_result(like, {graph.sizes.sources, operands.dims.x});
  Tensor grad_y = new_result(like, {graph.sizes.edges, operands.dims.y});
  bool stream_weight = false;
  Tensor grad_weight = operands.new_grad_weight(&stream_weight);
  if (all_empty({&grad_x, &grad_y, &grad_weight})) {
    return {grad_x, grad_y, grad_weight};
  }
  for_storage(like, [&](auto zero) {
    using S = decltype(zero);
    ChannelwiseConvBackward<S> op{};
    op.graph = graph.view();
    op.grad = read<S>(grad);
    operands.fill(op);
    op.grad_x = write<S>(grad_x);
    op.grad_y = write<S>(grad_y);
    op.grad_weight = op.weight == nullptr ? nullptr : write<S>(grad_weight);
    op.stream_weight = stream_weight;
    run(op, like);
  });
  return {grad_x, grad_y, grad_weight};
}

Tensor radial_conv_op(
    Tensor x,
    Tensor y,
    Tensor hidden,
    Tensor radial,
    Tensor source,
    Tensor ptr,
    Tensor order,
    Tensor target,
    Tensor back_order,
    Tensor back_ptr,
    Tensor paths,
    Tensor entries,
    Tensor values,
    int64_t dim_out,
    bool ir_mul) {
  check_components("dim_out", dim_out);
  EQUIGEO_CHECK(y.dim() == 2, "y must be (edges, components)");
  EQUIGEO_CHECK(hidden.dim() == 2, "hidden must be (edges, numbers)");
  EQUIGEO_CHECK(radial.dim() == 2, "radial must be (numbers, weights)");
  ChannelwiseOperands operands(
      x, y, std::nullopt, paths, entries, values, dim_out, ir_mul, y.size(0));
  const Tensor& like = operands.x;
  const ScalarType dtype = like.scalar_type();
  operands.dims.weight = radial.size(1);
  hidden = checked("hidden", hidden, like, dtype, {y.size(0), hidden.size(1)});
  radial = checked("radial", radial, like, dtype, {hidden.size(1), radial.size(1)});
  if (hidden.size(1) == 0) {  // kernels know the layer by its pointers, which empty tensors lack
    hidden = new_zeros(like, {y.size(0), 1});
    radial = new_zeros(like, {1, operands.dims.weight});
  }
  const GraphTensors graph(like, operands.y, source, ptr, order, target, back_order, back_ptr);
  Tensor out = new_result(like, {graph.sizes.targets, dim_out});
  if (all_empty({&out})) {
    return out;
  }
  for_dtype(like, [&](auto zero) {
    using T = decltype(zero);
    ChannelwiseConv<T> op{};
    op.graph = graph.view();
    operands.fill(op);
    op.radial = {read<T>(hidden), read<T>(radial), hidden.size(1), radial.size(1)};
    op.out = write<T>(out);
    run(op, operands.x);
  });
  return out;
}

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, EQUIGEO_DEVICE, library) {
  library.impl("channelwise_conv", TORCH_BOX(&equigeo::channelwise_conv_op));
  library.impl("channelwise_conv_backward", TORCH_BOX(&equigeo::channelwise_conv_backward_op));
  library.impl("radial_conv", TORCH_BOX(&equigeo::radial_conv_op));
}
