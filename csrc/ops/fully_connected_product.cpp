#include "ops/fully_connected_product.h"

#include "ops/fully_connected_arguments.h"
#ifdef EQUIGEO_CUDA
#include "ops/cuda/fully_connected_product.h"
#else
#include "ops/cpu/fully_connected_product.h"
#endif

namespace equigeo {
namespace {

template <class T>
void run(FullyConnectedProduct<T>& op, const FullyConnectedOperands& operands) {
#ifdef EQUIGEO_CUDA
  check_launch(launch(op, Stream(operands.x).handle()));
#else
  const FullyConnectedPlanner<T> planner(op.table, operands.table);
  op.plan = planner.view();
  run_rows(
      EQUIGEO_KERNELS(fully_connected_product_rows), op, op.rows, op.rows * planner.work(),
      kMixedRows);
#endif
}

Tensor fully_connected_product_op(
    Tensor x,
    Tensor y,
    Tensor weight,
    Tensor paths,
    Tensor entries,
    Tensor values,
    int64_t dim_out) {
  STD_TORCH_CHECK(dim_out >= 0, "dim_out must not be negative");
  const FullyConnectedOperands operands(x, y, weight, {x, paths, entries, values}, dim_out);
  Tensor out = new_result(operands.x, {operands.rows, dim_out});
  for_dtype(operands.x, [&](auto zero) {
    using T = decltype(zero);
    FullyConnectedProduct<T> op{};
    operands.fill(op);
    op.out = write<T>(out);
    run(op, operands);
  });
  return out;
}

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, EQUIGEO_DEVICE, library) {
  library.impl("fully_connected_product", TORCH_BOX(&equigeo::fully_connected_product_op));
}
