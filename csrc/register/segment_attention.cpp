#include "args/segments.h"

#include <tuple>

#include "register/device.h"
#include "register/graph_tensors.h"

namespace equigeo {
namespace {

// The transposed lists are for the gradient.
std::tuple<Tensor, Tensor> segment_attention_op(
    Tensor values,
    Tensor logits,
    Tensor source,
    Tensor ptr,
    Tensor /*target*/,
    Tensor /*back_order*/,
    Tensor /*back_ptr*/) {
  EQUIGEO_CHECK(values.dim() == 3, "values must be (sources, heads, channels)");
  const GraphTensors graph(values, source, ptr);
  const ScalarType dtype = values.scalar_type();
  const int64_t sources = graph.sizes.sources, targets = graph.sizes.targets;
  const int64_t edges = graph.sizes.edges, heads = values.size(1), channels = values.size(2);
  values = checked("values", values, values, dtype, {sources, heads, channels});
  logits = checked("logits", logits, values, dtype, {edges, heads});
  Tensor out = new_tensor(values, {targets, heads, channels});
  Tensor attention = new_tensor(values, {edges, heads});
  if (all_empty({&out, &attention})) {
    return {out, attention};
  }
  for_dtype(values, [&](auto zero) {
    using T = decltype(zero);
    const SegmentAttention<T> op{graph.view(), read<T>(values), read<T>(logits),    heads,
                                 channels,     write<T>(out),   write<T>(attention)};
    run(op, values);
  });
  return {out, attention};
}

std::tuple<Tensor, Tensor> segment_attention_backward_op(
    Tensor grad_out,
    Optional grad_attention,
    Tensor values,
    Tensor attention,
    Tensor source,
    Tensor ptr,
    Tensor target,
    Tensor back_order,
    Tensor back_ptr) {
  EQUIGEO_CHECK(values.dim() == 3, "values must be (sources, heads, channels)");
  const GraphTensors graph(values, source, ptr, std::nullopt, target, back_order, back_ptr);
  const ScalarType dtype = values.scalar_type();
  const int64_t sources = graph.sizes.sources, targets = graph.sizes.targets;
  const int64_t edges = graph.sizes.edges, heads = values.size(1), channels = values.size(2);
  grad_out = checked("grad_out", grad_out, values, dtype, {targets, heads, channels});
  values = checked("values", values, values, dtype, {sources, heads, channels});
  attention = checked("attention", attention, values, dtype, {edges, heads});
  grad_attention = checked_or_none("grad_attention", grad_attention, values, {edges, heads});
  Tensor grad_values = new_tensor(values, {sources, heads, channels});
  Tensor grad_logits = new_tensor(values, {edges, heads});
  if (all_empty({&grad_values, &grad_logits})) {
    return {grad_values, grad_logits};
  }
  for_dtype(values, [&](auto zero) {
    using T = decltype(zero);
    const SegmentAttentionBackward<T> op{
        graph.view(),    read<T>(grad_out),     read_or_null<T>(grad_attention),
        read<T>(values), read<T>(attention),    heads,
        channels,        write<T>(grad_values), write<T>(grad_logits)};
    run(op, values);
  });
  return {grad_values, grad_logits};
}

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, EQUIGEO_DEVICE, library) {
  library.impl("segment_attention", TORCH_BOX(&equigeo::segment_attention_op));
  library.impl("segment_attention_backward", TORCH_BOX(&equigeo::segment_attention_backward_op));
}
