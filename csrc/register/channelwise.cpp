#include "register/products.h"

namespace equigeo {
namespace {

Tensor channelwise_product_op(
    Tensor x,
    Tensor y,
    Optional weight,
    Tensor paths,
    Tensor entries,
    Tensor values,
    int64_t dim_out,
    bool ir_mul) {
  return product<ChannelwiseProduct, true>(
      {x, y, weight, {x, paths, entries, values}, dim_out, ir_mul});
}

std::tuple<Tensor, Tensor, Tensor> channelwise_product_backward_op(
    Tensor grad,
    Tensor x,
    Tensor y,
    Optional weight,
    Tensor paths,
    Tensor entries,
    Tensor values,
    bool ir_mul,
    bool by_weight) {
  return product_backward<ChannelwiseProductBackward, true>(
      grad, {x, y, weight, {x, paths, entries, values}, columns_of("grad", grad), ir_mul},
      by_weight);
}

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
  return product_double_backward<ChannelwiseProductDoubleBackward, true>(
      grad, {x, y, weight, {x, paths, entries, values}, columns_of("grad", grad), ir_mul},
      {x_tangent, y_tangent, weight_tangent}, {by_grad, by_x, by_y, by_weight});
}

Tensor channelwise_conv_op(
    Tensor x,
    Tensor y,
    Optional weight,
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
  return product<ChannelwiseConv, true>(
      {x,
       y,
       weight,
       {x, paths, entries, values},
       dim_out,
       ir_mul,
       GraphTensors(x, source, ptr, order, target, back_order, back_ptr)});
}

std::tuple<Tensor, Tensor, Tensor> channelwise_conv_backward_op(
    Tensor grad,
    Tensor x,
    Tensor y,
    Optional weight,
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
    bool by_weight) {
  return product_backward<ChannelwiseConvBackward, true>(
      grad,
      {x,
       y,
       weight,
       {x, paths, entries, values},
       columns_of("grad", grad),
       ir_mul,
       GraphTensors(x, source, ptr, order, target, back_order, back_ptr)},
      by_weight);
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
  return product_double_backward<ChannelwiseConvDoubleBackward, true>(
      grad,
      {x,
       y,
       weight,
       {x, paths, entries, values},
       columns_of("grad", grad),
       ir_mul,
       GraphTensors(x, source, ptr, order, target, back_order, back_ptr)},
      {x_tangent, y_tangent, weight_tangent}, {by_grad, by_x, by_y, by_weight});
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
  ProductOperands operands(
      x, y, std::nullopt, {x, paths, entries, values}, dim_out, ir_mul,
      GraphTensors(x, source, ptr, order, target, back_order, back_ptr));
  const ScalarType dtype = x.scalar_type();
  int64_t numbers = columns_of("hidden", hidden);
  const int64_t weights = operands.dims.weight = columns_of("radial", radial);
  hidden = checked("hidden", hidden, x, dtype, {operands.rows, numbers});
  radial = checked("radial", radial, x, dtype, {numbers, weights});
  if (numbers == 0) {  // kernels know the layer by its pointers, which empty tensors lack
    numbers = 1;
    hidden = new_zeros(x, {operands.rows, numbers});
    radial = new_zeros(x, {numbers, weights});
  }
  return product<ChannelwiseConv>(operands, [&](auto& op) {
    set_input(op.radial.hidden, hidden);
    set_input(op.radial.matrix, radial);
    op.radial.num_hidden = numbers;
    op.radial.stride = weights;
  });
}

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, EQUIGEO_DEVICE, library) {
  library.impl("channelwise_product", TORCH_BOX(&equigeo::channelwise_product_op));
  library.impl(
      "channelwise_product_backward", TORCH_BOX(&equigeo::channelwise_product_backward_op));
  library.impl(
      "channelwise_product_double_backward",
      TORCH_BOX(&equigeo::channelwise_product_double_backward_op));
  library.impl("channelwise_conv", TORCH_BOX(&equigeo::channelwise_conv_op));
  library.impl("channelwise_conv_backward", TORCH_BOX(&equigeo::channelwise_conv_backward_op));
  library.impl(
      "channelwise_conv_double_backward", TORCH_BOX(&equigeo::channelwise_conv_double_backward_op));
  library.impl("radial_conv", TORCH_BOX(&equigeo::radial_conv_op));
}
