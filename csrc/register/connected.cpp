// Copywise and fully connected products, whose schemas differ in whether weights may be missing.
#include "register/products.h"

namespace equigeo {
namespace {

template <template <class> class Op, class Weight>
Tensor connected_product(
    Tensor x,
    Tensor y,
    Weight weight,
    Tensor paths,
    Tensor entries,
    Tensor values,
    int64_t dim_out) {
  return product<Op>({x, y, weight, {x, paths, entries, values}, dim_out});
}

template <template <class> class Op, class Weight>
std::tuple<Tensor, Tensor, Tensor> connected_product_backward(
    Tensor grad,
    Tensor x,
    Tensor y,
    Weight weight,
    Tensor paths,
    Tensor entries,
    Tensor values,
    bool by_weight) {
  return product_backward<Op>(
      grad, {x, y, weight, {x, paths, entries, values}, columns_of("grad", grad)}, by_weight);
}

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, EQUIGEO_DEVICE, library) {
  using namespace equigeo;
  library.impl("copywise_product", TORCH_BOX((&connected_product<CopywiseProduct, Optional>)));
  library.impl(
      "copywise_product_backward",
      TORCH_BOX((&connected_product_backward<CopywiseProductBackward, Optional>)));
  library.impl(
      "fully_connected_product", TORCH_BOX((&connected_product<FullyConnectedProduct, Tensor>)));
  library.impl(
      "fully_connected_product_backward",
      TORCH_BOX((&connected_product_backward<FullyConnectedProductBackward, Tensor>)));
}
