#include "ops/channelwise_conv.h"

#include "ops/channelwise_arguments.h"
#include "ops/device.h"
#ifdef EQUIGEO_CUDA
#include "ops/cuda/channelwise_conv.h"
#else
#include "ops/cpu/channelwise_conv.h"
#endif

namespace equigeo {
namespace {

template <class S>
void run(ChannelwiseConv<S> op, Operands& operands, const Tensor& x) {
#ifdef EQUIGEO_CUDA
  op.paths = view<Compute<S>>(operands.table, operands.dims, operands.ir_mul);
  launch_with_scratch(op, x);
#else
  op.paths = plan<Compute<S>>(operands.table, operands.dims, operands.ir_mul);
  check_offsets("ptr", op.graph.ptr, op.graph.targets, op.graph.edges);
  const Tensor padded = pad_rows_of(op.paths, x, op.x, false);
  op.padded_x = read<Compute<S>>(padded);
  const int64_t work = op.graph.edges * work_per_row(op.paths);
  run_rows(EQUIGEO_KERNELS(channelwise_conv_targets), op, op.graph.targets, work);
#endif
}

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
  STD_TORCH_CHECK(dim_out >= 0, "dim_out must not be negative");
  STD_TORCH_CHECK(y.dim() == 2, "y must be (edges, components)");
  Operands operands(x, y, weight, paths, entries, values, ir_mul, y.size(0));
  operands.dims.out = dim_out;
  const GraphTensors graph(operands.x, source, ptr, order, target, back_order, back_ptr);
  Tensor out = new_result(operands.x, {graph.sizes.targets, dim_out});
  for_storage(operands.x, [&](auto zero) {
    using S = decltype(zero);
    ChannelwiseConv<S> op{};
    op.graph = graph.view();
    op.x = read<S>(operands.x);
    op.y = read<S>(operands.y);
    op.weight = operands.weights<S>();
    op.out = write<S>(out);
    run(op, operands, operands.x);
  });
  return out;
}

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, EQUIGEO_DEVICE, library) {
  library.impl("channelwise_conv", TORCH_BOX(&equigeo::channelwise_conv_op));
}
