#include <tuple>

#include "ops/channelwise_arguments.h"
#include "ops/channelwise_conv.h"
#include "ops/device.h"
#ifdef EQUIGEO_CUDA
#include "ops/cuda/channelwise_conv.h"
#else
#include "ops/cpu/channelwise_conv.h"
#endif

namespace equigeo {
namespace {

template <class S>
void run(ChannelwiseConvBackward<S> op, Operands& operands, const Tensor& grad) {
#ifdef EQUIGEO_CUDA
  op.paths = view<Compute<S>>(operands.table, operands.dims, operands.ir_mul);
  launch_with_scratch(op, grad);
#else
  op.paths = plan<Compute<S>>(operands.table, operands.dims, operands.ir_mul);
  check_offsets("ptr", op.graph.ptr, op.graph.targets, op.graph.edges);
  check_offsets("back_ptr", op.graph.back_ptr, op.graph.sources, op.graph.edges);
  const Tensor padded_x = pad_rows_of(op.paths, operands.x, op.x, false);
  const Tensor padded_grad = pad_rows_of(op.paths, grad, op.grad, true);
  op.padded_x = read<Compute<S>>(padded_x);
  op.padded_grad = read<Compute<S>>(padded_grad);
  const int64_t work = op.graph.edges * work_per_row(op.paths);
  run_rows(EQUIGEO_KERNELS(channelwise_conv_backward_edges), op, op.graph.targets, 2 * work);
  run_rows(EQUIGEO_KERNELS(channelwise_conv_backward_sources), op, op.graph.sources, work);
#endif
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
  STD_TORCH_CHECK(y.dim() == 2, "y must be (edges, components)");
  STD_TORCH_CHECK(grad.dim() == 2, "grad must be (targets, components)");
  Operands operands(x, y, weight, paths, entries, values, ir_mul, y.size(0));
  operands.dims.out = grad.size(1);
  const Tensor& like = operands.x;
  const GraphTensors graph(like, source, ptr, order, target, back_order, back_ptr);
  grad = checked("grad", grad, like, like.scalar_type(), {graph.sizes.targets, grad.size(1)});
  Tensor grad_x = new_result(like, {graph.sizes.sources, operands.dims.x});
  Tensor grad_y = new_result(like, {graph.sizes.edges, operands.dims.y});
  Tensor grad_weight = operands.new_grad_weight();
  for_storage(like, [&](auto zero) {
    using S = decltype(zero);
    ChannelwiseConvBackward<S> op{};
    op.graph = graph.view();
    op.grad = read<S>(grad);
    op.x = read<S>(operands.x);
    op.y = read<S>(operands.y);
    op.weight = operands.weights<S>();
    op.grad_x = write<S>(grad_x);
    op.grad_y = write<S>(grad_y);
    op.grad_weight = op.weight == nullptr ? nullptr : write<S>(grad_weight);
    run(op, operands, grad);
  });
  return {grad_x, grad_y, grad_weight};
}

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, EQUIGEO_DEVICE, library) {
  library.impl("channelwise_conv_backward", TORCH_BOX(&equigeo::channelwise_conv_backward_op));
}
