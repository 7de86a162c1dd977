#include "args/segment_attention.h"

#include <optional>
#include <tuple>

#include "register/device.h"
#include "register/tensors.h"

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
  EQUIGEO_CHECK(source.dim() == 1, "source must have one axis");
  EQUIGEO_CHECK(ptr.dim() == 1 && ptr.size(0) > 0, "ptr must have one axis and one entry");
  const ScalarType dtype = values.scalar_type();
  const int64_t sources = values.size(0), heads = values.size(1), channels = values.size(2);
  const int64_t edges = source.size(0), targets = ptr.size(0) - 1;
  EQUIGEO_CHECK(sources > 0 || edges == 0, "there must be no edges where there is no source");
  values = checked("values", values, values, dtype, {sources, heads, channels});
  logits = checked("logits", logits, values, dtype, {edges, heads});
  source = checked_index("source", source, values, edges);
  ptr = checked_index("ptr", ptr, values, targets + 1);
  Tensor out = new_tensor(values, {targets, heads, channels});
  Tensor attention = new_tensor(values, {edges, heads});
  if (all_empty({&out, &attention})) {
    return {out, attention};
  }
  for_dtype(values, [&](auto zero) {
    using T = decltype(zero);
    const SegmentAttention<T> op{
        read<T>(values),
        read<T>(logits),
        read<int64_t>(source),
        read<int64_t>(ptr),
        sources,
        targets,
        edges,
        heads,
        channels,
        write<T>(out),
        write<T>(attention)};
    run(op, values);
  });
  return {out, attention};
}

std::tuple<Tensor, Tensor> segment_attention_backward_op(
    Tensor grad_out,
    std::optional<Tensor> grad_attention,
    Tensor values,
    Tensor attention,
    Tensor source,
    Tensor ptr,
    Tensor target,
    Tensor back_order,
    Tensor back_ptr) {
  EQUIGEO_CHECK(values.dim() == 3, "values must be (sources, heads, channels)");
  EQUIGEO_CHECK(source.dim() == 1, "source must have one axis");
  EQUIGEO_CHECK(ptr.dim() == 1 && ptr.size(0) > 0, "ptr must have one axis and one entry");
  const ScalarType dtype = values.scalar_type();
  const int64_t sources = values.size(0), heads = values.size(1), channels = values.size(2);
  const int64_t edges = source.size(0), targets = ptr.size(0) - 1;
  EQUIGEO_CHECK(sources > 0 || edges == 0, "there must be no edges where there is no source");
  EQUIGEO_CHECK(targets > 0 || edges == 0, "there must be no edges where there is no target");
  grad_out = checked("grad_out", grad_out, values, dtype, {targets, heads, channels});
  values = checked("values", values, values, dtype, {sources, heads, channels});
  attention = checked("attention", attention, values, dtype, {edges, heads});
  if (grad_attention.has_value()) {
    grad_attention = checked("grad_attention", *grad_attention, values, dtype, {edges, heads});
  }
  source = checked_index("source", source, values, edges);
  ptr = checked_index("ptr", ptr, values, targets + 1);
  target = checked_index("target", target, values, edges);
  back_order = checked_index("back_order", back_order, values, edges);
  back_ptr = checked_index("back_ptr", back_ptr, values, sources + 1);
  Tensor grad_values = new_tensor(values, {sources, heads, channels});
  Tensor grad_logits = new_tensor(values, {edges, heads});
  if (all_empty({&grad_values, &grad_logits})) {
    return {grad_values, grad_logits};
  }
  for_dtype(values, [&](auto zero) {
    using T = decltype(zero);
    const SegmentAttentionBackward<T> op{
        read<T>(grad_out),
        grad_attention.has_value() ? read<T>(*grad_attention) : nullptr,
        read<T>(values),
        read<T>(attention),
        read<int64_t>(source),
        read<int64_t>(ptr),
        read<int64_t>(target),
        read<int64_t>(back_order),
        read<int64_t>(back_ptr),
        sources,
        targets,
        edges,
        heads,
        channels,
        write<T>(grad_values),
        write<T>(grad_logits)};
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
