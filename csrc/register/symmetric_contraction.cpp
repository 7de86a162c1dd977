#include <tuple>
#include <vector>

#include "register/device.h"
#include "register/polynomial_table.h"

namespace equigeo {
namespace {

using Dims = std::vector<int64_t>;

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
    run(op, given.x);
  });
  return z;
}

// Gradients of a contraction, or how they change along tangents.
//
// `tangents` are of grad, x and weight, or none.
std::tuple<Tensor, Tensor, Tensor> contraction_gradients(
    const Contracted& given,
    const Tensor& grad_given,
    const std::vector<Tensor>& tangents,
    const Tensor& order_given,
    const Tensor& ptr_given,
    bool only_x) {
  const Tensor grad = given.as_grad("grad", grad_given);
  const Tensor order = checked_index("order", order_given, given.x, given.rows);
  const Tensor ptr = checked_index("ptr", ptr_given, given.x, given.sets + 1);
  const bool moves = !tangents.empty();
  const Tensor grad_tangent = moves ? given.as_grad("grad_tangent", tangents[0]) : grad;
  const Tensor x_tangent = moves ? given.as_x("x_tangent", tangents[1]) : grad;
  const Tensor weight_tangent = moves ? given.as_weight("weight_tangent", tangents[2]) : grad;
  Tensor to_grad =
      only_x ? new_result(given.x, {0}) : new_result(given.x, {given.rows, grad.size(1)});
  Tensor to_x = new_result(given.x, {given.rows, given.x.size(1)});
  Tensor to_weight = only_x ? new_result(given.x, {0})
                            : new_result(given.x, {given.sets, given.weights, given.channels});
  const int64_t runs = given.rows / kRowsOfRun + given.sets;
  Tensor partial = new_result(
      given.x, {only_x || given.rows <= kRowsOfRun ? 0 : runs, given.weights, given.channels});
  for_dtype(given.x, [&](auto zero) {
    using T = decltype(zero);
    SymmetricContractionGradients<T> op{};
    given.view<T>(op);
    op.grad = read<T>(grad);
    op.grad_tangent = read<T>(grad_tangent);
    op.x_tangent = read<T>(x_tangent);
    op.weight_tangent = read<T>(weight_tangent);
    op.only_x = only_x;
    op.tangents = moves;
    op.order = read<int64_t>(order);
    op.ptr = read<int64_t>(ptr);
    op.to_grad = write<T>(to_grad);
    op.to_x = write<T>(to_x);
    op.to_weight = write<T>(to_weight);
    op.partial = write<T>(partial);
    op.runs = runs;
    run(op, given.x);
  });
  return {to_grad, to_x, to_weight};
}

std::tuple<Tensor, Tensor, Tensor> symmetric_contraction_backward_op(
    Tensor grad,
    Tensor x,
    Tensor weight,
    Tensor order,
    Tensor ptr,
    Tensor products,
    Tensor polynomials,
    Tensor groups,
    Tensor nodes,
    Tensor values,
    Dims /*levels*/,
    Dims dims_in,
    Dims dims_out,
    bool only_x) {
  const PolynomialTable table(x, products, polynomials, groups, nodes, values, dims_in, dims_out);
  return contraction_gradients(Contracted(x, weight, table), grad, {}, order, ptr, only_x);
}

std::tuple<Tensor, Tensor, Tensor> symmetric_contraction_double_backward_op(
    Tensor grad,
    Tensor x,
    Tensor weight,
    Tensor grad_tangent,
    Tensor x_tangent,
    Tensor weight_tangent,
    Tensor order,
    Tensor ptr,
    Tensor products,
    Tensor polynomials,
    Tensor groups,
    Tensor nodes,
    Tensor values,
    Dims /*levels*/,
    Dims dims_in,
    Dims dims_out) {
  const PolynomialTable table(x, products, polynomials, groups, nodes, values, dims_in, dims_out);
  return contraction_gradients(
      Contracted(x, weight, table), grad, {grad_tangent, x_tangent, weight_tangent}, order, ptr,
      false);
}

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, EQUIGEO_DEVICE, library) {
  library.impl("symmetric_contraction", TORCH_BOX(&equigeo::symmetric_contraction_op));
  library.impl(
      "symmetric_contraction_backward", TORCH_BOX(&equigeo::symmetric_contraction_backward_op));
  library.impl(
      "symmetric_contraction_double_backward",
      TORCH_BOX(&equigeo::symmetric_contraction_double_backward_op));
}
