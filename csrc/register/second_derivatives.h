// What ops take and return that differentiate the gradients of a product.
#pragma once

#include <optional>
#include <tuple>

#include "register/device.h"
#include "register/tensors.h"

namespace equigeo {

using Optional = std::optional<Tensor>;

// The arguments of the form that a product makes with the gradient that arrives, checked.
struct Form {
  const Tensor &grad, &x, &y;
  const Optional& weight;
};

// The tangents of the operands of a product, each like what it belongs to; zero where there is
// none.
struct Tangents {
  Optional x, y, weight;

  Tangents(
      const Form& form,
      const Optional& x_given,
      const Optional& y_given,
      const Optional& weight_given)
      : x(like("x_tangent", x_given, form.x)), y(like("y_tangent", y_given, form.y)) {
    EQUIGEO_CHECK(
        form.weight.has_value() || !weight_given.has_value(),
        "weight_tangent must be None where there are no weights");
    if (weight_given.has_value()) {
      weight = like("weight_tangent", weight_given, *form.weight);
    }
  }

  template <template <class> class Op, class S>
  void fill(Op<S>& op) const {
    op.x_tangent = read_or_null<S>(x);
    op.y_tangent = read_or_null<S>(y);
    op.weight_tangent = read_or_null<S>(weight);
  }

 private:
  static Optional like(const char* name, const Optional& tangent, const Tensor& of) {
    return checked_or_none(name, tangent, of, {of.size(0), of.size(1)});
  }
};

// The four results, like the arguments of the form, empty where they are not wanted.
struct Slopes {
  Tensor grad, x, y, weight;
  bool stream = false;  // that by grad

  Slopes(const Form& form, bool by_grad, bool by_x, bool by_y, bool by_weight)
      : grad(new_slope(form, by_grad, form.grad, &stream)),
        x(new_slope(form, by_x, form.x)),
        y(new_slope(form, by_y, form.y)),
        weight(new_slope(form, by_weight, form.weight)) {}

  bool empty() const { return all_empty({&grad, &x, &y, &weight}); }

  template <template <class> class Op, class S>
  void fill(Op<S>& op) const {
    op.to_grad = write_or_null<S>(grad);
    op.to_x = write_or_null<S>(x);
    op.to_y = write_or_null<S>(y);
    op.to_weight = write_or_null<S>(weight);
  }

  std::tuple<Tensor, Tensor, Tensor, Tensor> all() const { return {grad, x, y, weight}; }

 private:
  static Tensor new_slope(
      const Form& form, bool is_wanted, const Optional& of, bool* stream = nullptr) {
    if (!is_wanted || !of.has_value()) {
      return new_result(form.x, {0, 0});
    }
    return new_result(form.x, {of->size(0), of->size(1)}, stream);
  }

  template <class S>
  static S* write_or_null(const Tensor& tensor) {
    return tensor.numel() > 0 ? write<S>(tensor) : nullptr;
  }
};

}  // namespace equigeo
