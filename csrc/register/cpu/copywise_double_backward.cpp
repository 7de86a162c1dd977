// On the CPU alone: on other devices the reference implementation is taken.
#include <tuple>

#include "register/copywise_operands.h"
#include "register/second_derivatives.h"

namespace equigeo {
namespace {

std::tuple<Tensor, Tensor, Tensor, Tensor> copywise_product_double_backward_op(
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
    bool by_grad,
    bool by_x,
    bool by_y,
    bool by_weight) {
  EQUIGEO_CHECK(grad.dim() == 2, "grad must be (rows, components)");
  const CopywiseOperands operands(x, y, weight, {x, paths, entries, values}, grad.size(1));
  const Tensor& like = operands.x;
  grad = checked("grad", grad, like, like.scalar_type(), {operands.rows, grad.size(1)});
  const Form form{grad, operands.x, operands.y, operands.weight};
  const Tangents tangents(form, x_tangent, y_tangent, weight_tangent);
  const Slopes slopes(form, by_grad, by_x, by_y, by_weight);
  if (slopes.empty()) {
    return slopes.all();
  }
  for_dtype(like, [&](auto zero) {
    using T = decltype(zero);
    CopywiseProductDoubleBackward<T> op{};
    op.grad = read<T>(grad);
    operands.fill(op);
    tangents.fill(op);
    slopes.fill(op);
    op.stream = slopes.stream && is_streamed<T>(slopes.grad);
    run(op, like);
  });
  return slopes.all();
}

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, CPU, library) {
  library.impl(
      "copywise_product_double_backward", TORCH_BOX(&equigeo::copywise_product_double_backward_op));
}
