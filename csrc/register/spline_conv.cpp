#include "register/products.h"

namespace equigeo {
namespace {

// The splines that both ops read, checked.
struct SplineTensors {
  Tensor position, first, basis, coefficients;

  // Sets the number of weights among the operands.
  SplineTensors(
      const Tensor& position_given,
      const Tensor& first_given,
      const Tensor& basis_given,
      const Tensor& coefficients_given,
      ProductOperands& operands) {
    EQUIGEO_CHECK(basis_given.dim() == 2, "basis must be (functions + 1, functions)");
    EQUIGEO_CHECK(coefficients_given.dim() == 3, "coefficients must be (2, rows, weights)");
    const int64_t functions = basis_given.size(1), rows = coefficients_given.size(1);
    EQUIGEO_CHECK(
        1 <= functions && functions <= kMostFunctions, "basis must have 1 to ", kMostFunctions,
        " functions, got ", functions);
    EQUIGEO_CHECK(functions <= rows, "coefficients must have a row for each function");
    operands.dims.weight = coefficients_given.size(2);
    const Tensor& like = operands.x;
    const ScalarType dtype = like.scalar_type();
    position = checked("position", position_given, like, dtype, {operands.rows});
    first = checked_index("first", first_given, like, operands.rows);
    basis = checked("basis", basis_given, like, dtype, {functions + 1, functions});
    coefficients =
        checked("coefficients", coefficients_given, like, dtype, {2, rows, operands.dims.weight});
  }

  template <class T>
  void fill(SplineWeights<T>& spline) const {
    const int64_t functions = basis.size(1), rows = coefficients.size(1);
    spline = {
        read<T>(position),
        read<int64_t>(first),
        read<T>(basis),
        read<T>(coefficients),
        functions,
        rows,
        coefficients.size(2),
        functions};
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
  ProductOperands operands(
      x, y, std::nullopt, {x, paths, entries, values}, dim_out, ir_mul,
      GraphTensors(x, source, ptr, order, target, back_order, back_ptr));
  const SplineTensors spline(position, first, basis, coefficients, operands);
  return product<ChannelwiseConv>(operands, [&](auto& op) { spline.fill(op.spline); });
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
  ProductOperands operands(
      x, y, std::nullopt, {x, paths, entries, values}, columns_of("grad", grad), ir_mul,
      GraphTensors(x, source, ptr, order, target, back_order, back_ptr));
  const SplineTensors spline(position, first, basis, coefficients, operands);
  grad = operands.checked_grad(grad);
  const Tensor& like = operands.x;
  Tensor grad_x = by_x ? new_result(like, {x.size(0), x.size(1)}) : new_result(like, {0, 0});
  Tensor grad_y = new_result(like, {operands.rows, operands.dims.y});
  Tensor grad_position = new_result(like, {operands.rows});
  if (!all_empty({&grad_x, &grad_y, &grad_position})) {
    operands.run_op<ChannelwiseConvBackward, false>([&](auto& op) {
      spline.fill(op.spline);
      set_input(op.grad, grad);
      set_result(op.grad_x, grad_x);
      set_result(op.grad_y, grad_y);
      set_result(op.grad_position, grad_position);
    });
  }
  return {grad_x, grad_y, grad_position};
}

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, EQUIGEO_DEVICE, library) {
  library.impl("spline_conv", TORCH_BOX(&equigeo::spline_conv_op));
  library.impl("spline_conv_backward", TORCH_BOX(&equigeo::spline_conv_backward_op));
}
