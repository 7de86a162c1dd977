#include "ops/contraction_gradients.h"

namespace equigeo {
namespace {

using Dims = std::vector<int64_t>;

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

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, EQUIGEO_DEVICE, library) {
  library.impl(
      "symmetric_contraction_backward", TORCH_BOX(&equigeo::symmetric_contraction_backward_op));
}
