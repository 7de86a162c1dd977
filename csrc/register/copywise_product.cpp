#include "args/copywise_product.h"

#include <optional>
#include <tuple>
#include <utility>

#include "register/device.h"
#include "register/path_table.h"

namespace equigeo {
namespace {

struct CopywiseOperands {
  Tensor x, y;
  std::optional<Tensor> weight;
  PathTensors table;
  PathDims dims;
  int64_t rows, weight_stride;

  CopywiseOperands(
      const Tensor& x_given,
      const Tensor& y_given,
      const std::optional<Tensor>& weight_given,
      PathTensors table_given,
      int64_t dim_out)
      : x(x_given),
        y(y_given),
        weight(weight_given),
        table(std::move(table_given)),
        dims{},
        rows(0),
        weight_stride(0) {
    EQUIGEO_CHECK(x.dim() == 2, "x must be (rows, components)");
    EQUIGEO_CHECK(y.dim() == 2, "y must be (rows, components)");
    const ScalarType dtype = x.scalar_type();
    rows = x.size(0);
    dims.x = x.size(1);
    dims.y = y.size(1);
    dims.out = dim_out;
    x = checked("x", x, x, dtype, {rows, dims.x});
    y = checked("y", y, x, dtype, {rows, dims.y});
    if (weight.has_value()) {
      EQUIGEO_CHECK(weight->dim() == 2, "weight must be (rows, weights)");
      dims.weight = weight->size(1);
      // One row that stands for all is not copied.
      const bool same = rows > 1 && weight->stride(0) == 0 && weight->stride(1) == 1;
      check_tensor("weight", *weight, x, dtype, {rows, dims.weight});
      weight = same ? *weight : contiguous("weight", *weight);
      weight_stride = same ? 0 : dims.weight;
    }
  }

  template <template <class> class Op, class T>
  void fill(Op<T>& op) const {
    op.table = table.view<T>(dims, weight.has_value(), false);
    op.x = read<T>(x);
    op.y = read<T>(y);
    op.weight = weight.has_value() ? read<T>(*weight) : nullptr;
    op.weight_stride = weight_stride;
    op.rows = rows;
  }
};

// Rows are put together aside and written once: to write them past the caches pays early.
constexpr int64_t kStreamed = 1 << 22;  // bytes

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
    op.stream = kept && out.numel() * static_cast<int64_t>(sizeof(T)) >= kStreamed;
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
