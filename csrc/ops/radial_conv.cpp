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

template <class T>
void run(ChannelwiseConv<T> op, Operands& operands, const Tensor& x) {
#ifdef EQUIGEO_CUDA
  op.paths = view<T>(operands.table, operands.dims, operands.ir_mul);
  launch_with_scratch(op, x);
#else
  op.paths = plan<T>(operands.table, operands.dims, operands.ir_mul);
  check_offsets("ptr", op.graph.ptr, op.graph.targets, op.graph.edges);
  const Tensor padded = pad_rows_of(op.paths, x, op.x, false);
  op.padded_x = read<T>(padded);
  // The matrix with columns up to whole registers.
  op.radial_stride = (operands.dims.weight + 15) / 16 * 16;
  Tensor radial = torch::stable::new_zeros(x, {op.num_hidden, op.radial_stride});
  T* to = write<T>(radial);
  for (int64_t h = 0; h < op.num_hidden; ++h) {
    std::copy_n(
        op.radial + h * operands.dims.weight, operands.dims.weight, to + h * op.radial_stride);
  }
  op.radial = to;
  const int64_t work =
      op.graph.edges * (work_per_row(op.paths) + op.num_hidden * operands.dims.weight);
  run_rows(EQUIGEO_KERNELS(channelwise_conv_targets), op, op.graph.targets, work);
#endif
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
  STD_TORCH_CHECK(dim_out >= 0, "dim_out must not be negative");
  STD_TORCH_CHECK(y.dim() == 2, "y must be (edges, components)");
  STD_TORCH_CHECK(hidden.dim() == 2, "hidden must be (edges, numbers)");
  STD_TORCH_CHECK(radial.dim() == 2, "radial must be (numbers, weights)");
  Operands operands(x, y, std::nullopt, paths, entries, values, ir_mul, y.size(0));
  const Tensor& like = operands.x;
  const ScalarType dtype = like.scalar_type();
  operands.dims.weight = radial.size(1);
  operands.dims.out = dim_out;
  hidden = checked("hidden", hidden, like, dtype, {y.size(0), hidden.size(1)});
  radial = checked("radial", radial, like, dtype, {hidden.size(1), radial.size(1)});
  if (hidden.size(1) == 0) {  // kernels know the layer by its pointers, which empty tensors lack
    hidden = torch::stable::new_zeros(like, {y.size(0), 1});
    radial = torch::stable::new_zeros(like, {1, operands.dims.weight});
  }
  const GraphTensors graph(like, source, ptr, order, target, back_order, back_ptr);
  Tensor out = new_result(like, {graph.sizes.targets, dim_out});
  for_dtype(like, [&](auto zero) {
    using T = decltype(zero);
    ChannelwiseConv<T> op{};
    op.graph = graph.view();
    op.x = read<T>(operands.x);
    op.y = read<T>(operands.y);
    op.hidden = read<T>(hidden);
    op.radial = read<T>(radial);
    op.num_hidden = hidden.size(1);
    op.radial_stride = radial.size(1);
    op.out = write<T>(out);
    run(op, operands, operands.x);
  });
  return out;
}

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, EQUIGEO_DEVICE, library) {
  library.impl("radial_conv", TORCH_BOX(&equigeo::radial_conv_op));
}
