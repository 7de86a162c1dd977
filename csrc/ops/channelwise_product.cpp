#include "ops/channelwise_product.h"

#include "ops/channelwise_arguments.h"

#ifdef EQUIGEO_CUDA
#include "ops/cuda/channelwise_product.h"
#else
#include "ops/cpu/channelwise_product.h"
#endif

namespace equigeo {
namespace {

template <class S>
void run(ChannelwiseProduct<S> op, Operands& operands) {
#ifdef EQUIGEO_CUDA
  op.paths = view<Compute<S>>(operands.table, operands.dims, operands.ir_mul);
  launch_with_scratch(op, operands.x);
#else
  op.paths = plan<Compute<S>>(operands.table, operands.dims, operands.ir_mul);
  run_rows(
      EQUIGEO_KERNELS(channelwise_product_rows), op, op.rows, op.rows * work_per_row(op.paths),
      kBlock);
#endif
}

Tensor channelwise_product_op(
    Tensor x,
    Tensor y,
    std::optional<Tensor> weight,
    Tensor paths,
    Tensor entries,
    Tensor values,
    int64_t dim_out,
    bool ir_mul) {
  STD_TORCH_CHECK(x.dim() == 2, "x must be (rows, components)");
  STD_TORCH_CHECK(dim_out >= 0, "dim_out must not be negative");
  Operands operands(x, y, weight, paths, entries, values, ir_mul, x.size(0));
  operands.dims.out = dim_out;
  bool stream = false;
  Tensor out = new_result(operands.x, {x.size(0), dim_out}, &stream);
  for_storage(operands.x, [&](auto zero) {
    using S = decltype(zero);
    ChannelwiseProduct<S> op{};
    op.x = read<S>(operands.x);
    op.y = read<S>(operands.y);
    op.weight = operands.weights<S>();
    op.rows = x.size(0);
    op.out = write<S>(out);
    op.stream = stream;
    run(op, operands);
  });
  return out;
}

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, EQUIGEO_DEVICE, library) {
  library.impl("channelwise_product", TORCH_BOX(&equigeo::channelwise_product_op));
}
