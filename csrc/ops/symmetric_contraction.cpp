#include "ops/symmetric_contraction.h"

#include "ops/device.h"
#include "ops/polynomial_table.h"
#ifdef EQUIGEO_CUDA
#include "ops/cuda/symmetric_contraction.h"
#else
#include "ops/cpu/symmetric_contraction.h"
#endif

namespace equigeo {
namespace {

using Dims = std::vector<int64_t>;

template <class T>
void run(const SymmetricContraction<T>& op, const Contracted& given) {
  if (op.channels == 0) {  // arrays without elements may be null
    return;
  }
#ifdef EQUIGEO_CUDA
  check_launch(launch(op, Stream(given.x).handle()));
#else
  const int64_t work = op.rows * op.channels * given.table.work();
  run_rows(EQUIGEO_KERNELS(symmetric_contraction_rows), op, op.rows, work);
#endif
}

Tensor symmetric_contraction_op(
    Tensor x,
    Tensor weight,
    Tensor index,
    Tensor products,
    Tensor polynomials,
    Tensor groups,
    Tensor nodes,
    Tensor values,
    Dims /*levels*/,
    Dims dims_in,
    Dims dims_out) {
  const PolynomialTable table(x, products, polynomials, groups, nodes, values, dims_in, dims_out);
  const Contracted given(x, weight, table);
  index = checked_index("index", index, given.x, given.rows);
  Tensor z = new_result(given.x, {given.rows, given.channels * table.out.components});
  for_dtype(given.x, [&](auto zero) {
    using T = decltype(zero);
    SymmetricContraction<T> op{};
    given.view<T>(op);
    op.index = read<int64_t>(index);
    op.z = write<T>(z);
    run(op, given);
  });
  return z;
}

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, EQUIGEO_DEVICE, library) {
  library.impl("symmetric_contraction", TORCH_BOX(&equigeo::symmetric_contraction_op));
}
