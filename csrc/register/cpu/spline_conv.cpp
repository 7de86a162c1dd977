// On the CPU alone: on other devices weights are computed first.
#include <array>
#include <tuple>

#include "kernels/cpu/channelwise_conv.h"
#include "register/channelwise_operands.h"
#include "register/graph_tensors.h"

namespace equigeo {
namespace {

// What both ops read, after checks.
struct SplineOperands {
  ChannelwiseOperands product;
  Tensor position, first, basis, coefficients;
  GraphTensors graph;

  SplineOperands(
      const Tensor& x,
      const Tensor& y,
      const Tensor& position_given,
      const Tensor& first_given,
      const Tensor& basis_given,
      const Tensor& coefficients_given,
      const Tensor& paths,
      const Tensor& entries,
      const Tensor& values,
      int64_t dim_out,
      bool ir_mul,
      const std::array<Tensor, 6>& lists)
      : product(x, y, std::nullopt, paths, entries, values, dim_out, ir_mul, rows_of(y)),
        graph(product.x, product.y, lists[0], lists[1], lists[2], lists[3], lists[4], lists[5]) {
    const Tensor& like = product.x;
    EQUIGEO_CHECK(basis_given.dim() == 2, "basis must be (functions, functions)");
    EQUIGEO_CHECK(coefficients_given.dim() == 2, "coefficients must be (rows, weights)");
    const int64_t functions = basis_given.size(0), rows = coefficients_given.size(0);
    EQUIGEO_CHECK(
        1 <= functions && functions <= kMostFunctions, "basis must have 1 to ", kMostFunctions,
        " functions, got ", functions);
    EQUIGEO_CHECK(functions <= rows, "coefficients must have a row for each function");
    product.dims.weight = coefficients_given.size(1);
    const ScalarType dtype = like.scalar_type();
    const int64_t edges = rows_of(y);
    position = checked("position", position_given, like, dtype, {edges});
    first = checked_index("first", first_given, like, edges);
    basis = checked("basis", basis_given, like, dtype, {functions, functions});
    coefficients =
        checked("coefficients", coefficients_given, like, dtype, {rows, product.dims.weight});
  }

  template <template <class> class Op, class T>
  void fill(Op<T>& op) const {
    op.graph = graph.view();
    product.fill(op);
    op.spline = {read<T>(position),     read<int64_t>(first), read<T>(basis),
                 read<T>(coefficients), basis.size(0),        coefficients.size(0),
                 coefficients.size(1)};
  }

 private:
  static int64_t rows_of(const Tensor& y) {
    EQUIGEO_CHECK(y.dim() == 2, "y must be (edges, components)");
    return y.size(0);
  }
};

Tensor spline_conv_op(
    Tensor x,
    Tensor y,
    Tensor position,
    Tensor first,
    Tensor basis,
    Tensor coefficients,
    Tensor source,
    Tensor ptr,
    Tensor order,
    Tensor target,
    Tensor back_order,
    Tensor back_ptr,
    Tensor paths,
    Tensor entries,
    Tensor values,
    int64_t dim_out,
    bool ir_mul) {
  check_components("dim_out", dim_out);
  const SplineOperands given(
      x, y, position, first, basis, coefficients, paths, entries, values, dim_out, ir_mul,
      {source, ptr, order, target, back_order, back_ptr});
  const Tensor& like = given.product.x;
  Tensor out = new_result(like, {given.graph.sizes.targets, dim_out});
  if (all_empty({&out})) {
    return out;
  }
  for_dtype(like, [&](auto zero) {
    using T = decltype(zero);
    ChannelwiseConv<T> op{};
    given.fill(op);
    op.out = write<T>(out);
    run(op, like);
  });
  return out;
}

std::tuple<Tensor, Tensor, Tensor> spline_conv_backward_op(
    Tensor grad,
    Tensor x,
    Tensor y,
    Tensor position,
    Tensor first,
    Tensor basis,
    Tensor coefficients,
    Tensor source,
    Tensor ptr,
    Tensor order,
    Tensor target,
    Tensor back_order,
    Tensor back_ptr,
    Tensor paths,
    Tensor entries,
    Tensor values,
    bool ir_mul,
    bool by_x) {
  EQUIGEO_CHECK(grad.dim() == 2, "grad must be (targets, components)");
  const SplineOperands given(
      x, y, position, first, basis, coefficients, paths, entries, values, grad.size(1), ir_mul,
      {source, ptr, order, target, back_order, back_ptr});
  const Tensor& like = given.product.x;
  const auto& sizes = given.graph.sizes;
  grad = checked("grad", grad, like, like.scalar_type(), {sizes.targets, grad.size(1)});
  Tensor grad_x =
      by_x ? new_result(like, {sizes.sources, given.product.dims.x}) : new_result(like, {0, 0});
  Tensor grad_y = new_result(like, {sizes.edges, given.product.dims.y});
  Tensor grad_position = new_result(like, {sizes.edges});
  if (all_empty({&grad_x, &grad_y, &grad_position})) {
    return {grad_x, grad_y, grad_position};
  }
  for_dtype(like, [&](auto zero) {
    using T = decltype(zero);
    ChannelwiseConvBackward<T> op{};
    given.fill(op);
    op.grad = read<T>(grad);
    op.grad_x = by_x ? write<T>(grad_x) : nullptr;
    op.grad_y = write<T>(grad_y);
    op.grad_position = write<T>(grad_position);
    run(op, like);
  });
  return {grad_x, grad_y, grad_position};
}

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, CPU, library) {
  library.impl("spline_conv", TORCH_BOX(&equigeo::spline_conv_op));
  library.impl("spline_conv_backward", TORCH_BOX(&equigeo::spline_conv_backward_op));
}
