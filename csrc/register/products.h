// Products of rows and convolutions: operands checked, results made, ops run.
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

#include "args/channelwise_conv.h"
#include "register/device.h"
#include "register/graph_tensors.h"
#include "register/path_table.h"

namespace equigeo {

// Columns of a tensor of rows.
inline int64_t columns_of(const char* name, const Tensor& tensor) {
  EQUIGEO_CHECK(tensor.dim() == 2, name, " must be (rows, components)");
  return tensor.size(1);
}

template <class S>
void set_input(const S*& pointer, const Optional& tensor) {
  pointer = read_or_null<S>(tensor);
}

template <class S>
void set_result(S*& pointer, const Tensor& tensor) {
  pointer = tensor.numel() > 0 ? write<S>(tensor) : nullptr;
}

template <class Op, class = void>
constexpr bool kOnGraph = false;
template <class Op>
constexpr bool kOnGraph<Op, std::void_t<decltype(Op::graph)>> = true;

// Whether components are outside (`ir_mul`) is an argument, although strides of segments imply
// it: on a GPU the table is in the memory of the device, which the host cannot read without
// waiting, and the host must know how much memory to set aside and what to launch. Kernels check
// that the segments agree.
struct ProductOperands {
  Tensor x, y;
  Optional weight;
  PathTensors table;
  PathDims dims;
  bool ir_mul;
  std::optional<GraphTensors> graph;  // of convolutions
  int64_t rows;                       // of y and weight
  int64_t weight_stride = 0;

  ProductOperands(
      const Tensor& x_given,
      const Tensor& y_given,
      const Optional& weight_given,
      PathTensors table_given,
      int64_t dim_out,
      bool ir_mul_given = false,
      std::optional<GraphTensors> graph_given = std::nullopt)
      : weight(weight_given),
        table(std::move(table_given)),
        dims{columns_of("x", x_given), columns_of("y", y_given), 0, dim_out},
        ir_mul(ir_mul_given),
        graph(std::move(graph_given)),
        rows(graph.has_value() ? graph->sizes.edges : x_given.size(0)) {
    EQUIGEO_CHECK(
        !graph.has_value() || y_given.size(0) == rows, "y must have a row for each of ", rows,
        " edges, got ", y_given.size(0));
    const ScalarType dtype = x_given.scalar_type();
    x = checked("x", x_given, x_given, dtype, {x_given.size(0), dims.x});
    y = checked("y", y_given, x, dtype, {rows, dims.y});
    if (weight.has_value()) {
      dims.weight = columns_of("weight", *weight);
      check_tensor("weight", *weight, x, dtype, {rows, dims.weight});
      // One row that stands for all is not copied.
      const bool same = rows > 1 && weight->stride(0) == 0 && weight->stride(1) == 1;
      weight = same ? *weight : contiguous("weight", *weight);
      weight_stride = same ? 0 : dims.weight;
    }
  }

  // Rows of the result.
  int64_t results() const { return graph.has_value() ? graph->sizes.targets : rows; }

  Tensor checked_grad(const Tensor& grad) const {
    return checked("grad", grad, x, x.scalar_type(), {results(), dims.out});
  }

  // Run an op with these operands, in which `complete` fills in the rest.
  template <template <class> class Op, bool bf16, class Complete>
  void run_op(const Complete& complete) const {
    const auto run_with = [&](auto zero) {
      using S = decltype(zero);
      Op<S> op{};
      op.table = table.view<Compute<S>>(dims, weight.has_value(), ir_mul);
      set_input(op.x, x);
      set_input(op.y, y);
      set_input(op.weight, weight);
      op.weight_stride = weight_stride;
      op.rows = rows;
      if constexpr (kOnGraph<Op<S>>) {
        op.graph = graph->view();
      }
      complete(op);
      run(op, x);
    };
    if constexpr (bf16) {
      for_storage(x, run_with);
    } else {
      for_dtype(x, run_with);
    }
  }
};

struct NothingMore {
  template <class Op>
  void operator()(const Op&) const {}
};

template <template <class> class Op, bool bf16 = false, class Complete = NothingMore>
Tensor product(const ProductOperands& given, const Complete& complete = {}) {
  check_components("dim_out", given.dims.out);
  bool stream = false;
  Tensor out = new_result(given.x, {given.results(), given.dims.out}, &stream);
  if (!all_empty({&out})) {
    given.run_op<Op, bf16>([&](auto& op) {
      set_result(op.out, out);
      op.stream = stream;
      complete(op);
    });
  }
  return out;
}

template <template <class> class Op, bool bf16 = false>
std::tuple<Tensor, Tensor, Tensor> product_backward(
    const Tensor& grad_given, const ProductOperands& given, bool by_weight) {
  const Tensor grad = given.checked_grad(grad_given);
  const bool weighted = by_weight && given.weight.has_value();
  bool stream_x = false, stream_weight = false;
  Tensor grad_x = new_result(given.x, {given.x.size(0), given.dims.x}, &stream_x);
  Tensor grad_y = new_result(given.x, {given.rows, given.dims.y});
  Tensor grad_weight = weighted
                           ? new_result(given.x, {given.rows, given.dims.weight}, &stream_weight)
                           : new_result(given.x, {0, 0});
  if (!all_empty({&grad_x, &grad_y, &grad_weight})) {
    given.run_op<Op, bf16>([&](auto& op) {
      set_input(op.grad, grad);
      set_result(op.grad_x, grad_x);
      set_result(op.grad_y, grad_y);
      set_result(op.grad_weight, grad_weight);
      op.stream_x = stream_x;
      op.stream_weight = stream_weight;
    });
  }
  return {grad_x, grad_y, grad_weight};
}

// The arguments of the form that a product makes with the gradient that arrives: tangents of the
// operands, zero where there is none, and which derivatives are wanted.
struct Tangents {
  Optional x, y, weight;
};

struct Wanted {
  bool grad, x, y, weight;
};

// The derivatives of the form by its arguments, empty where they are not wanted.
template <template <class> class Op, bool bf16 = false>
std::tuple<Tensor, Tensor, Tensor, Tensor> product_double_backward(
    const Tensor& grad_given,
    const ProductOperands& given,
    const Tangents& tangents,
    const Wanted& wanted) {
  const Tensor grad = given.checked_grad(grad_given);
  EQUIGEO_CHECK(
      given.weight.has_value() || !tangents.weight.has_value(),
      "weight_tangent must be None where there are no weights");
  const auto like = [](const char* name, const Optional& tangent, const Optional& of) {
    return tangent.has_value() ? checked_or_none(name, tangent, *of, {of->size(0), of->size(1)})
                               : std::nullopt;
  };
  const Optional x_tangent = like("x_tangent", tangents.x, given.x);
  const Optional y_tangent = like("y_tangent", tangents.y, given.y);
  const Optional weight_tangent = like("weight_tangent", tangents.weight, given.weight);
  const auto slope = [&](bool is_wanted, const Optional& of, bool* stream = nullptr) {
    const bool any = is_wanted && of.has_value();
    return any ? new_result(given.x, {of->size(0), of->size(1)}, stream)
               : new_result(given.x, {0, 0});
  };
  bool stream = false;
  Tensor to_grad = slope(wanted.grad, grad, &stream), to_x = slope(wanted.x, given.x);
  Tensor to_y = slope(wanted.y, given.y), to_weight = slope(wanted.weight, given.weight);
  if (!all_empty({&to_grad, &to_x, &to_y, &to_weight})) {
    given.run_op<Op, bf16>([&](auto& op) {
      set_input(op.grad, grad);
      set_input(op.x_tangent, x_tangent);
      set_input(op.y_tangent, y_tangent);
      set_input(op.weight_tangent, weight_tangent);
      set_result(op.to_grad, to_grad);
      set_result(op.to_x, to_x);
      set_result(op.to_y, to_y);
      set_result(op.to_weight, to_weight);
      op.stream = stream;
    });
  }
  return {to_grad, to_x, to_y, to_weight};
}

}  // namespace equigeo
