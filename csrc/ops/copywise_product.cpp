#include "ops/copywise_product.h"

#include "ops/copywise_arguments.h"
#ifdef EQUIGEO_CUDA
#include "ops/cuda/copywise_product.h"
#else
#include "ops/cpu/copywise_product.h"
#endif

namespace equigeo {
namespace {

// Rows are put together aside and written once: to write them past the caches pays early.
constexpr int64_t kStreamed = 1 << 22;  // bytes

template <class T>
void run(CopywiseProduct<T>& op, const CopywiseOperands& operands) {
#ifdef EQUIGEO_CUDA
  check_launch(launch(op, Stream(operands.x).handle()));
#else
  const CopyPlanner<T> planner(op.table, operands.table.values.size(0));
  op.plan = planner.view();
  run_rows(
      EQUIGEO_KERNELS(copywise_product_rows), op, op.rows, op.rows * planner.work(), kCopyRows);
#endif
}

Tensor copywise_product_op(
    Tensor x,
    Tensor y,
    std::optional<Tensor> weight,
    Tensor paths,
    Tensor entries,
    Tensor values,
    int64_t dim_out) {
  STD_TORCH_CHECK(dim_out >= 0, "dim_out must not be negative");
  const CopywiseOperands operands(x, y, weight, {x, paths, entries, values}, dim_out);
  bool kept = false;
  Tensor out = new_result(operands.x, {operands.rows, dim_out}, &kept);
  for_dtype(operands.x, [&](auto zero) {
    using T = decltype(zero);
    CopywiseProduct<T> op{};
    operands.fill(op);
    op.out = write<T>(out);
    op.stream = kept && out.numel() * static_cast<int64_t>(sizeof(T)) >= kStreamed;
    run(op, operands);
  });
  return out;
}

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, EQUIGEO_DEVICE, library) {
  library.impl("copywise_product", TORCH_BOX(&equigeo::copywise_product_op));
}
