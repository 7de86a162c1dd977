#include "args/block_linear.h"

#include <tuple>

#include "register/device.h"
#include "register/tensors.h"

namespace equigeo {
namespace {

struct LinearOperands {
  Tensor x, weight, blocks, factors;
  int64_t dim_out;
  bool ir_mul;

  LinearOperands(
      const Tensor& x_given,
      const Tensor& weight_given,
      const Tensor& blocks_given,
      const Tensor& factors_given,
      int64_t dim_out_given,
      bool ir_mul_given)
      : dim_out(dim_out_given), ir_mul(ir_mul_given) {
    constexpr int64_t kColumns = sizeof(LinearBlock) / sizeof(int64_t);
    EQUIGEO_CHECK(x_given.dim() == 2, "x must be (rows, components)");
    EQUIGEO_CHECK(weight_given.dim() == 2, "weight must be (groups, weights)");
    const ScalarType dtype = x_given.scalar_type();
    const ScalarType computed = dtype == ScalarType::BFloat16 ? ScalarType::Float : dtype;
    const int64_t count = blocks_given.dim() > 0 ? blocks_given.size(0) : 0;
    x = checked("x", x_given, x_given, dtype, {x_given.size(0), x_given.size(1)});
    weight =
        checked("weight", weight_given, x, dtype, {weight_given.size(0), weight_given.size(1)});
    blocks = checked("blocks", blocks_given, x, ScalarType::Long, {count, kColumns});
    factors = checked("factors", factors_given, x, computed, {count});
    check_components("the columns of x", x.size(1));
    check_components("the columns of weight", weight.size(1));
    check_components("the columns of the output", dim_out);
    const int64_t rows = x.size(0), groups = weight.size(0);
    EQUIGEO_CHECK(
        groups > 0 ? rows % groups == 0 : rows == 0, "the ", rows,
        " rows of x must be in as many equal groups as weight has rows, ", groups);
  }

  template <template <class> class Op, class S>
  void fill(Op<S>& op) const {
    op.blocks.block = reinterpret_cast<const LinearBlock*>(blocks.const_data_ptr());
    op.blocks.factor = read<Compute<S>>(factors);
    op.blocks.count = blocks.size(0);
    op.blocks.dim_in = x.size(1);
    op.blocks.dim_weight = weight.size(1);
    op.blocks.dim_out = dim_out;
    op.blocks.ir_mul = ir_mul;
    op.x = read<S>(x);
    op.weight = read<S>(weight);
    op.rows = x.size(0);
    op.groups = weight.size(0);
  }
};

Tensor block_linear_op(
    Tensor x, Tensor weight, Tensor blocks, Tensor factors, int64_t dim_out, bool ir_mul) {
  const LinearOperands operands(x, weight, blocks, factors, dim_out, ir_mul);
  Tensor out = new_result(operands.x, {operands.x.size(0), dim_out});
  if (all_empty({&out})) {
    return out;
  }
  for_storage(operands.x, [&](auto zero) {
    using S = decltype(zero);
    BlockLinear<S> op{};
    operands.fill(op);
    op.out = write<S>(out);
    run(op, operands.x);
  });
  return out;
}

std::tuple<Tensor, Tensor> block_linear_backward_op(
    Tensor grad,
    Tensor x,
    Tensor weight,
    Tensor blocks,
    Tensor factors,
    bool ir_mul,
    bool by_x,
    bool by_weight) {
  EQUIGEO_CHECK(grad.dim() == 2, "grad must be (rows, components)");
  const LinearOperands operands(x, weight, blocks, factors, grad.size(1), ir_mul);
  const Tensor& like = operands.x;
  grad = checked("grad", grad, like, like.scalar_type(), {like.size(0), grad.size(1)});
  const auto result = [&](const Tensor& of, bool asked) {
    return asked ? new_result(like, {of.size(0), of.size(1)}) : new_tensor(like, {0, 0});
  };
  Tensor grad_x = result(like, by_x), grad_weight = result(operands.weight, by_weight);
  if (all_empty({&grad_x, &grad_weight})) {
    return {grad_x, grad_weight};
  }
  for_storage(like, [&](auto zero) {
    using S = decltype(zero);
    BlockLinearBackward<S> op{};
    operands.fill(op);
    op.grad = read<S>(grad);
    op.grad_x = by_x ? write<S>(grad_x) : nullptr;
    op.grad_weight = by_weight ? write<S>(grad_weight) : nullptr;
    run(op, operands.x);
  });
  return {grad_x, grad_weight};
}

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, EQUIGEO_DEVICE, library) {
  library.impl("block_linear", TORCH_BOX(&equigeo::block_linear_op));
  library.impl("block_linear_backward", TORCH_BOX(&equigeo::block_linear_backward_op));
}
