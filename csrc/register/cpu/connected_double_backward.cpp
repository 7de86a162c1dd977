// On the CPU alone: on other devices the reference implementation is taken.
#include "register/products.h"

namespace equigeo {
namespace {

template <template <class> class Op, class Weight>
std::tuple<Tensor, Tensor, Tensor, Tensor> connected_product_double_backward(
    Tensor grad,
    Tensor x,
    Tensor y,
    Weight weight,
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
  return product_double_backward<Op>(
      grad, {x, y, weight, {x, paths, entries, values}, columns_of("grad", grad)},
      {x_tangent, y_tangent, weight_tangent}, {by_grad, by_x, by_y, by_weight});
}

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, CPU, library) {
  using namespace equigeo;
  library.impl(
      "copywise_product_double_backward",
      TORCH_BOX((&connected_product_double_backward<CopywiseProductDoubleBackward, Optional>)));
  library.impl(
      "fully_connected_product_double_backward",
      TORCH_BOX((&connected_product_double_backward<FullyConnectedProductDoubleBackward, Tensor>)));
}
