// On the CPU alone: on other devices PyTorch's matrix products and the attention there are taken.
#include "args/attention_conv.h"

#include <optional>
#include <tuple>

#include "register/cpu/result_memory.h"
#include "register/cpu/run_attention_conv.h"

namespace equigeo {
namespace {

struct Shape {
  int64_t sources, targets, edges, heads, channels, channels_out;
};

Shape shape_of(
    const Tensor& x,
    const Tensor& by_edge,
    const Tensor& weight,
    const std::optional<Tensor>& self_weight,
    const Tensor& ptr) {
  EQUIGEO_CHECK(x.dim() == 2, "x must be (sources, channels)");
  EQUIGEO_CHECK(by_edge.dim() == 2, "logits and attention must be (edges, heads)");
  EQUIGEO_CHECK(weight.dim() == 2, "weight must be (heads * channels_out, channels)");
  EQUIGEO_CHECK(ptr.dim() == 1 && ptr.size(0) > 0, "ptr must have one axis and one entry");
  const int64_t heads = by_edge.size(1), rows = weight.size(0);
  EQUIGEO_CHECK(
      heads == 0 ? rows == 0 : rows % heads == 0, "weight must have as many rows for each of the ",
      heads, " heads");
  const Shape shape{x.size(0), ptr.size(0) - 1, by_edge.size(0),
                    heads,     x.size(1),       heads == 0 ? 0 : rows / heads};
  check_components("channels", shape.channels);
  EQUIGEO_CHECK(
      shape.sources > 0 || shape.edges == 0, "there must be no edges where there is no source");
  EQUIGEO_CHECK(
      shape.targets > 0 || shape.edges == 0, "there must be no edges where there is no target");
  EQUIGEO_CHECK(
      !self_weight.has_value() || shape.sources == shape.targets,
      "self_weight needs as many targets as sources");
  return shape;
}

// What both ops read, after checks; `by_edge` has a number for each edge and head.
struct Operands {
  Shape shape;
  Tensor x, by_edge, weight;
  std::optional<Tensor> self_weight;
  Tensor source, ptr;
};

Operands checked_operands(
    const Tensor& x,
    const char* name,
    const Tensor& by_edge,
    const Tensor& weight,
    const std::optional<Tensor>& self_weight,
    const Tensor& source,
    const Tensor& ptr) {
  const Shape s = shape_of(x, by_edge, weight, self_weight, ptr);
  const ScalarType dtype = x.scalar_type();
  const int64_t dim = s.heads * s.channels_out;
  return {
      s,
      checked("x", x, x, dtype, {s.sources, s.channels}),
      checked(name, by_edge, x, dtype, {s.edges, s.heads}),
      checked("weight", weight, x, dtype, {dim, s.channels}),
      checked_or_none("self_weight", self_weight, x, {dim, s.channels}),
      checked_index("source", source, x, s.edges),
      checked_index("ptr", ptr, x, s.targets + 1)};
}

// The transposed lists are for the gradient.
std::tuple<Tensor, Tensor> attention_conv_op(
    Tensor x,
    Tensor logits,
    Tensor weight,
    std::optional<Tensor> self_weight,
    Tensor source,
    Tensor ptr,
    Tensor /*target*/,
    Tensor /*back_order*/,
    Tensor /*back_ptr*/) {
  const Operands given = checked_operands(x, "logits", logits, weight, self_weight, source, ptr);
  const Shape& s = given.shape;
  Tensor out = new_result(given.x, {s.targets, s.heads * s.channels_out});
  Tensor attention = new_result(given.x, {s.edges, s.heads});
  if (all_empty({&out, &attention})) {
    return {out, attention};
  }
  for_dtype(given.x, [&](auto zero) {
    using T = decltype(zero);
    const AttentionConv<T> op{
        read<T>(given.x),
        read<T>(given.by_edge),
        read<T>(given.weight),
        read_or_null<T>(given.self_weight),
        read<int64_t>(given.source),
        read<int64_t>(given.ptr),
        s.sources,
        s.targets,
        s.edges,
        s.heads,
        s.channels,
        s.channels_out,
        write<T>(out),
        write<T>(attention)};
    run(op, given.x);
  });
  return {out, attention};
}

// Add the parts up, in their order.
template <class T>
void sum_parts(const Tensor& parts, const Tensor& total) {
  const int64_t count = parts.size(0), size = total.numel();
  const T* from = read<T>(parts);
  T* to = write<T>(total);
  std::fill(to, to + size, T(0));
  for (int64_t part = 0; part < count; ++part) {
    for (int64_t n = 0; n < size; ++n) {
      to[n] += from[part * size + n];
    }
  }
}

std::tuple<Tensor, Tensor, Tensor, Tensor> attention_conv_backward_op(
    Tensor grad_out,
    std::optional<Tensor> grad_attention,
    Tensor x,
    Tensor attention,
    Tensor weight,
    std::optional<Tensor> self_weight,
    Tensor source,
    Tensor ptr,
    Tensor target,
    Tensor back_order,
    Tensor back_ptr) {
  const Operands given =
      checked_operands(x, "attention", attention, weight, self_weight, source, ptr);
  const Shape& s = given.shape;
  const ScalarType dtype = x.scalar_type();
  const int64_t dim = s.heads * s.channels_out;
  grad_out = checked("grad_out", grad_out, x, dtype, {s.targets, dim});
  grad_attention = checked_or_none("grad_attention", grad_attention, x, {s.edges, s.heads});
  target = checked_index("target", target, x, s.edges);
  back_order = checked_index("back_order", back_order, x, s.edges);
  back_ptr = checked_index("back_ptr", back_ptr, x, s.sources + 1);
  const bool own = given.self_weight.has_value();
  const int64_t parts = parts_of(s.targets);
  Tensor grad_x = new_result(x, {s.sources, s.channels});
  Tensor grad_logits = new_result(x, {s.edges, s.heads});
  Tensor grad_weight = new_zeros(x, {dim, s.channels});
  Tensor grad_self = own ? new_zeros(x, {dim, s.channels}) : new_tensor(x, {0, 0});
  if (all_empty({&grad_x, &grad_logits, &grad_weight})) {
    return {grad_x, grad_logits, grad_weight, grad_self};
  }
  Tensor weight_parts = new_tensor(x, {parts, dim, s.channels});
  Tensor self_parts = new_tensor(x, {own ? parts : 0, dim, s.channels});
  for_dtype(x, [&](auto zero) {
    using T = decltype(zero);
    const AttentionConvBackward<T> op{
        read<T>(grad_out),
        read_or_null<T>(grad_attention),
        read<T>(given.x),
        read<T>(given.by_edge),
        read<T>(given.weight),
        read_or_null<T>(given.self_weight),
        read<int64_t>(given.source),
        read<int64_t>(given.ptr),
        read<int64_t>(target),
        read<int64_t>(back_order),
        read<int64_t>(back_ptr),
        s.sources,
        s.targets,
        s.edges,
        s.heads,
        s.channels,
        s.channels_out,
        rows_of_part(s.targets),
        write<T>(grad_x),
        write<T>(grad_logits),
        write<T>(weight_parts),
        own ? write<T>(self_parts) : nullptr};
    run(op, x);
    sum_parts<T>(weight_parts, grad_weight);
    if (own) {
      sum_parts<T>(self_parts, grad_self);
    }
  });
  return {grad_x, grad_logits, grad_weight, grad_self};
}

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, CPU, library) {
  library.impl("attention_conv", TORCH_BOX(&equigeo::attention_conv_op));
  library.impl("attention_conv_backward", TORCH_BOX(&equigeo::attention_conv_backward_op));
}
