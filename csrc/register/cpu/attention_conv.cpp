// On the CPU alone: on other devices PyTorch's matrix products and the attention there are taken.
#include "args/segments.h"

#include <tuple>
#include <utility>

#include "register/cpu/result_memory.h"
#include "register/cpu/run_attention_conv.h"
#include "register/graph_tensors.h"

namespace equigeo {
namespace {

// What both ops read, checked; `by_edge` has a number for each edge and head.
struct Operands {
  GraphTensors graph;
  Tensor x, by_edge, weight;
  Optional self_weight;
  int64_t heads, channels, channels_out;

  Operands(
      const Tensor& x_given,
      const char* name,
      const Tensor& by_edge_given,
      const Tensor& weight_given,
      const Optional& self_weight_given,
      GraphTensors graph_given)
      : graph(std::move(graph_given)) {
    EQUIGEO_CHECK(x_given.dim() == 2, "x must be (sources, channels)");
    EQUIGEO_CHECK(by_edge_given.dim() == 2, name, " must be (edges, heads)");
    EQUIGEO_CHECK(weight_given.dim() == 2, "weight must be (heads * channels_out, channels)");
    const int64_t rows = weight_given.size(0);
    channels = x_given.size(1);
    heads = by_edge_given.size(1);
    EQUIGEO_CHECK(
        heads == 0 ? rows == 0 : rows % heads == 0,
        "weight must have as many rows for each of the ", heads, " heads");
    channels_out = heads == 0 ? 0 : rows / heads;
    check_components("channels", channels);
    EQUIGEO_CHECK(
        !self_weight_given.has_value() || graph.sizes.sources == graph.sizes.targets,
        "self_weight needs as many targets as sources");
    const ScalarType dtype = x_given.scalar_type();
    x = checked("x", x_given, x_given, dtype, {graph.sizes.sources, channels});
    by_edge = checked(name, by_edge_given, x, dtype, {graph.sizes.edges, heads});
    weight = checked("weight", weight_given, x, dtype, {rows, channels});
    self_weight = checked_or_none("self_weight", self_weight_given, x, {rows, channels});
  }
};

// The transposed lists are for the gradient.
std::tuple<Tensor, Tensor> attention_conv_op(
    Tensor x,
    Tensor logits,
    Tensor weight,
    Optional self_weight,
    Tensor source,
    Tensor ptr,
    Tensor /*target*/,
    Tensor /*back_order*/,
    Tensor /*back_ptr*/) {
  const Operands given(x, "logits", logits, weight, self_weight, {x, source, ptr});
  const Graph& sizes = given.graph.sizes;
  Tensor out = new_result(given.x, {sizes.targets, given.weight.size(0)});
  Tensor attention = new_result(given.x, {sizes.edges, given.heads});
  if (all_empty({&out, &attention})) {
    return {out, attention};
  }
  for_dtype(given.x, [&](auto zero) {
    using T = decltype(zero);
    const AttentionConv<T> op{
        given.graph.view(),
        read<T>(given.x),
        read<T>(given.by_edge),
        read<T>(given.weight),
        read_or_null<T>(given.self_weight),
        given.heads,
        given.channels,
        given.channels_out,
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
    Optional grad_attention,
    Tensor x,
    Tensor attention,
    Tensor weight,
    Optional self_weight,
    Tensor source,
    Tensor ptr,
    Tensor target,
    Tensor back_order,
    Tensor back_ptr) {
  const Operands given(
      x, "attention", attention, weight, self_weight,
      {x, source, ptr, std::nullopt, target, back_order, back_ptr});
  const Graph& sizes = given.graph.sizes;
  const ScalarType dtype = x.scalar_type();
  const int64_t dim = given.weight.size(0), channels = given.channels;
  grad_out = checked("grad_out", grad_out, x, dtype, {sizes.targets, dim});
  grad_attention = checked_or_none("grad_attention", grad_attention, x, {sizes.edges, given.heads});
  const bool own = given.self_weight.has_value();
  const int64_t parts = parts_of(sizes.targets);
  Tensor grad_x = new_result(x, {sizes.sources, channels});
  Tensor grad_logits = new_result(x, {sizes.edges, given.heads});
  Tensor grad_weight = new_zeros(x, {dim, channels});
  Tensor grad_self = own ? new_zeros(x, {dim, channels}) : new_tensor(x, {0, 0});
  if (all_empty({&grad_x, &grad_logits, &grad_weight})) {
    return {grad_x, grad_logits, grad_weight, grad_self};
  }
  Tensor weight_parts = new_tensor(x, {parts, dim, channels});
  Tensor self_parts = new_tensor(x, {own ? parts : 0, dim, channels});
  for_dtype(x, [&](auto zero) {
    using T = decltype(zero);
    const AttentionConvBackward<T> op{
        given.graph.view(),
        read<T>(grad_out),
        read_or_null<T>(grad_attention),
        read<T>(given.x),
        read<T>(given.by_edge),
        read<T>(given.weight),
        read_or_null<T>(given.self_weight),
        given.heads,
        channels,
        given.channels_out,
        rows_of_part(sizes.targets),
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
