#include <optional>
#include <tuple>

#include "register/channelwise_operands.h"
#include "register/graph_tensors.h"

namespace equigeo {
namespace {

using Optional = std::optional<Tensor>;

// A tangent like what it belongs to; zero where there is none.
Optional checked_tangent(const char* name, const Optional& tangent, const Tensor& of) {
  return checked_or_none(name, tangent, of, {of.size(0), of.size(1)});
}

// The tangents of the operands of a product.
struct Tangents {
  Optional x, y, weight;

  Tangents(
      const ChannelwiseOperands& operands,
      const Optional& x_given,
      const Optional& y_given,
      const Optional& weight_given)
      : x(checked_tangent("x_tangent", x_given, operands.x)),
        y(checked_tangent("y_tangent", y_given, operands.y)) {
    EQUIGEO_CHECK(
        operands.weight.has_value() || !weight_given.has_value(),
        "weight_tangent must be None where there are no weights");
    if (weight_given.has_value()) {
      weight = checked_tangent("weight_tangent", weight_given, *operands.weight);
    }
  }

  template <template <class> class Op, class S>
  void fill(Op<S>& op) const {
    op.x_tangent = read_or_null<S>(x);
    op.y_tangent = read_or_null<S>(y);
    op.weight_tangent = read_or_null<S>(weight);
  }
};

// The four results, empty where they are not wanted.
struct Slopes {
  Tensor grad, x, y, weight;
  bool stream = false;

  Slopes(
      const ChannelwiseOperands& operands,
      int64_t rows,
      bool by_grad,
      bool by_x,
      bool by_y,
      bool by_weight) {
    const Tensor& like = operands.x;
    const auto wanted = [&](bool by, Sizes sizes, bool* streams = nullptr) {
      return by ? new_result(like, sizes, streams) : new_result(like, {0, 0});
    };
    grad = wanted(by_grad, {rows, operands.dims.out}, &stream);
    x = wanted(by_x, {like.size(0), operands.dims.x});
    y = wanted(by_y, {operands.y.size(0), operands.dims.y});
    weight = by_weight ? operands.new_grad_weight() : new_result(like, {0, 0});
  }

  bool empty() const { return all_empty({&grad, &x, &y, &weight}); }

  template <template <class> class Op, class S>
  void fill(Op<S>& op) {
    op.to_grad = write_or_null<S>(grad);
    op.to_x = write_or_null<S>(x);
    op.to_y = write_or_null<S>(y);
    op.to_weight = write_or_null<S>(weight);
  }

  std::tuple<Tensor, Tensor, Tensor, Tensor> all() const { return {grad, x, y, weight}; }

 private:
  template <class S>
  static S* write_or_null(const Tensor& tensor) {
    return tensor.numel() > 0 ? write<S>(tensor) : nullptr;
  }
};

std::tuple<Tensor, Tensor, Tensor, Tensor> channelwise_product_double_backward_op(
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
    bool ir_mul,
    bool by_grad,
    bool by_x,
    bool by_y,
    bool by_weight) {
  EQUIGEO_CHECK(grad.dim() == 2, "grad must be (rows, components)");
  EQUIGEO_CHECK(x.dim() == 2, "x must be (rows, components)");
  const int64_t rows = x.size(0);
  const ChannelwiseOperands operands(
      x, y, weight, paths, entries, values, grad.size(1), ir_mul, rows);
  const Tensor& like = operands.x;
  grad = checked("grad", grad, like, like.scalar_type(), {rows, grad.size(1)});
  const Tangents tangents(operands, x_tangent, y_tangent, weight_tangent);
  Slopes slopes(operands, rows, by_grad, by_x, by_y, by_weight);
  if (slopes.empty()) {
    return slopes.all();
  }
  for_storage(like, [&](auto zero) {
    using S = decltype(zero);
    ChannelwiseProductDoubleBackward<S> op{};
    op.grad = read<S>(grad);
    operands.fill(op);
    tangents.fill(op);
    op.rows = rows;
    slopes.fill(op);
    op.stream = slopes.stream;
    run(op, like);
  });
  return slopes.all();
}

std::tuple<Tensor, Tensor, Tensor, Tensor> channelwise_conv_double_backward_op(
    Tensor grad,
    Tensor x,
    Tensor y,
    Optional weight,
    Optional x_tangent,
    Optional y_tangent,
    Optional weight_tangent,
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
    bool by_grad,
    bool by_x,
    bool by_y,
    bool by_weight) {
  EQUIGEO_CHECK(y.dim() == 2, "y must be (edges, components)");
  EQUIGEO_CHECK(grad.dim() == 2, "grad must be (targets, components)");
  const ChannelwiseOperands operands(
      x, y, weight, paths, entries, values, grad.size(1), ir_mul, y.size(0));
  const Tensor& like = operands.x;
  const GraphTensors graph(like, operands.y, source, ptr, order, target, back_order, back_ptr);
  const int64_t targets = graph.sizes.targets;
  grad = checked("grad", grad, like, like.scalar_type(), {targets, grad.size(1)});
  const Tangents tangents(operands, x_tangent, y_tangent, weight_tangent);
  Slopes slopes(operands, targets, by_grad, by_x, by_y, by_weight);
  if (slopes.empty()) {
    return slopes.all();
  }
  for_storage(like, [&](auto zero) {
    using S = decltype(zero);
    ChannelwiseConvDoubleBackward<S> op{};
    op.graph = graph.view();
    op.grad = read<S>(grad);
    operands.fill(op);
    tangents.fill(op);
    slopes.fill(op);
    run(op, like);
  });
  return slopes.all();
}

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, EQUIGEO_DEVICE, library) {
  library.impl(
      "channelwise_product_double_backward",
      TORCH_BOX(&equigeo::channelwise_product_double_backward_op));
  library.impl(
      "channelwise_conv_double_backward", TORCH_BOX(&equigeo::channelwise_conv_double_backward_op));
}
