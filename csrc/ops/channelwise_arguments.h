// What channelwise products and convolutions are given, checked.
#pragma once

#include <optional>

#include "ops/channelwise_conv.h"
#include "ops/device.h"
#include "ops/path_table.h"
#ifndef EQUIGEO_CUDA
#include "ops/cpu/channelwise_conv.h"
#endif

namespace equigeo {

// Features with their path table. `rows` is the number of rows of y and weight.
struct Operands {
  Tensor x, y;
  std::optional<Tensor> weight;
  PathTable table;
  PathDims dims;
  bool ir_mul;

  Operands(
      const Tensor& x_given,
      const Tensor& y_given,
      const std::optional<Tensor>& weight_given,
      const Tensor& paths,
      const Tensor& entries,
      const Tensor& values,
      bool ir_mul_given,
      int64_t rows)
      : x(x_given), y(y_given), weight(weight_given), dims{}, ir_mul(ir_mul_given) {
    STD_TORCH_CHECK(x.dim() == 2, "x must be (rows, components)");
    STD_TORCH_CHECK(y.dim() == 2, "y must be (rows, components)");
    const ScalarType dtype = x.scalar_type();
    dims.x = x.size(1);
    dims.y = y.size(1);
    x = checked("x", x, x, dtype, {x.size(0), dims.x});
    y = checked("y", y, x, dtype, {rows, dims.y});
    if (weight.has_value()) {
      STD_TORCH_CHECK(weight->dim() == 2, "weight must be (rows, weights)");
      dims.weight = weight->size(1);
      weight = checked("weight", *weight, x, dtype, {rows, dims.weight});
    }
    table = path_table(x, paths, entries, values);
  }

  template <class S>
  const S* weights() const {
    return weight.has_value() ? read<S>(*weight) : nullptr;
  }

  Tensor new_grad_weight() const {
    return new_result(x, {weight.has_value() ? weight->size(0) : 0, dims.weight});
  }
};

struct GraphTensors {
  Tensor source, ptr, order, target, back_order, back_ptr;
  Graph sizes;

  GraphTensors(
      const Tensor& x,
      const Tensor& source_given,
      const Tensor& ptr_given,
      const Tensor& order_given,
      const Tensor& target_given,
      const Tensor& back_order_given,
      const Tensor& back_ptr_given)
      : sizes{} {
    STD_TORCH_CHECK(source_given.dim() == 1, "source must have one axis");
    STD_TORCH_CHECK(
        ptr_given.dim() == 1 && ptr_given.size(0) > 0, "ptr must have one axis and one entry");
    sizes.edges = source_given.size(0);
    sizes.targets = ptr_given.size(0) - 1;
    sizes.sources = x.size(0);
    STD_TORCH_CHECK(
        sizes.sources > 0 || sizes.edges == 0, "there must be no edges where there is no source");
    source = checked_index("source", source_given, x, sizes.edges);
    ptr = checked_index("ptr", ptr_given, x, sizes.targets + 1);
    order = checked_index("order", order_given, x, sizes.edges);
    target = checked_index("target", target_given, x, sizes.edges);
    back_order = checked_index("back_order", back_order_given, x, sizes.edges);
    back_ptr = checked_index("back_ptr", back_ptr_given, x, sizes.sources + 1);
  }

  Graph view() const {
    Graph graph = sizes;
    graph.source = read<int64_t>(source);
    graph.ptr = read<int64_t>(ptr);
    graph.order = read<int64_t>(order);
    graph.target = read<int64_t>(target);
    graph.back_order = read<int64_t>(back_order);
    graph.back_ptr = read<int64_t>(back_ptr);
    return graph;
  }
};

#ifndef EQUIGEO_CUDA
// Whether rows of the tensor are in the layout of kernels already.
template <class T>
bool rows_are_padded(const Paths<T>& paths, bool output) {
  bool same = output ? paths.padded_out == paths.dim_out : paths.padded_x == paths.dim_x;
  for (int64_t p = 0; output && p < paths.count; ++p) {
    const Path& path = paths.path[p];
    same &= paths.place[p].out == path.out && (paths.ir_mul || path.d3 == 1);
  }
  for (int64_t s = 0; !output && s < paths.segments; ++s) {
    const Segment1& segment = paths.segment[s];
    same &= segment.place == segment.offset && (paths.ir_mul || segment.d == 1);
  }
  return same;
}

// The rows of a contiguous tensor in the layout of kernels.
template <class S>
Tensor pad_rows_of(
    const Paths<Compute<S>>& paths, const Tensor& tensor, const S* from, bool output) {
  if (sizeof(S) == sizeof(Compute<S>) && rows_are_padded(paths, output)) {
    return tensor;
  }
  const int64_t rows = tensor.size(0), size = output ? paths.padded_out : paths.padded_x;
  // A bfloat16 row takes two of its elements for each float.
  constexpr int64_t kElements = sizeof(Compute<S>) / sizeof(S);
  Tensor to = new_result(tensor, {rows, size * kElements});
  const PadRows<S> op{paths, from, write<Compute<S>>(to), output};
  run_rows(EQUIGEO_KERNELS(pad_rows), op, rows, rows * size);
  return to;
}
#endif

}  // namespace equigeo
