#include "args/copywise_product.h"

#include <optional>
#include <tuple>

#include "register/copywise_operands.h"

namespace equigeo {
namespace {

Tensor copywise_product_op(
    Tensor x,
    Tensor y,
    std::optional<Tensor> weight,
    Tensor paths,
    Tensor entries,
    Tensor values,
    int64_t dim_out) {
  check_components("dim_out", dim_out);
  const CopywiseOperands operands(x, y, weight, {x, paths, entries, values}, dim_out);
  bool kept = false;
  Tensor out = new_result(operands.x, {operands.rows, dim_out}, &kept);
  if (all_empty({&out})) {
    return out;
  }
  for_dtype(operands.x, [&](auto zero) {
    using T = decltype(zero);
    CopywiseProduct<T> op{};
    operands.fill(op);
    op.out = write<T>(out);
    op.stream = kept && is_streamed<T>(out);
    run(op, operands.x);
  });
  return out;
}

std::tuple<Tensor, Tensor, Tensor> copywise_product_backward_op(
    Tensor grad,
    Tensor x,
    Tensor y,
    std::optional<Tensor> weight,
    Tensor paths,
    Tensor entries,
    Tensor values) {
  EQUIGEO_CHECK(grad.dim() == 2, "grad must be (rows, components)");
  const CopywiseOperands operands(x, y, weight, {x, paths, entries, values}, grad.size(1));
  const Tensor& like = operands.x;
  grad = checked("grad", grad, like, like.scalar_type(), {operands.rows, grad.size(1)});
  Tensor grad_x = new_result(like, {operands.rows, operands.dims.x});
  Tensor grad_y = new_result(like, {operands.rows, operands.dims.y});
  Tensor grad_weight =
      new_result(like, {weight.has_value() ? operands.rows : 0, operands.dims.weight});
  if (all_empty({&grad_x, &grad_y, &grad_weight})) {
    return {grad_x, grad_y, grad_weight};
  }
  for_dtype(like, [&](auto zero) {
    using T = decltype(zero);
    CopywiseProductBackward<T> op{};
    operands.fill(op);
    op.grad = read<T>(grad);
    op.grad_x = write<T>(grad_x);
    op.grad_y = write<T>(grad_y);
    op.grad_weight = write<T>(grad_weight);
    run(op, operands.x);
  });
  return {grad_x, grad_y, grad_weight};
}

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, EQUIGEO_DEVICE, library) {
  library.impl("copywise_product", TORCH_BOX(&equigeo::copywise_product_op));
  library.impl("copywise_product_backward", TORCH_BOX(&equigeo::copywise_product_backward_op));
}
