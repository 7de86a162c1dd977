#include "ops/contraction_gradients.h"

namespace equigeo {
namespace {

using Dims = std::vector<int64_t>;

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
  library.impl(
      "symmetric_contraction_double_backward",
      TORCH_BOX(&equigeo::symmetric_contraction_double_backward_op));
}
