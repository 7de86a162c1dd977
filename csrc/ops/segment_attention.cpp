#include "ops/segment_attention.h"

#include <tuple>

#include "ops/device.h"
#include "ops/tensors.h"
#ifdef EQUIGEO_CUDA
#include "ops/cuda/segment_attention.h"
#else
#include "ops/cpu/segment_attention.h"
#endif

namespace equigeo {
namespace {

template <class T>
void run(const SegmentAttention<T>& op, int64_t edges, const Tensor& values) {
#ifdef EQUIGEO_CUDA
  (void)edges;
  check_launch(launch(op, Stream(values).handle()));
#else
  (void)values;
  check_offsets("ptr", op.ptr, op.targets, edges);
  const int64_t work = (edges + op.targets) * op.heads * (op.channels + 8);
  run_rows(EQUIGEO_KERNELS(segment_attention_rows), op, op.targets, work);
#endif
}

// The transposed lists are for the gradient.
std::tuple<Tensor, Tensor> segment_attention_op(
    Tensor values,
    Tensor logits,
    Tensor source,
    Tensor ptr,
    Tensor /*target*/,
    Tensor /*back_order*/,
    Tensor /*back_ptr*/) {
  STD_TORCH_CHECK(values.dim() == 3, "values must be (sources, heads, channels)");
  STD_TORCH_CHECK(source.dim() == 1, "source must have one axis");
  STD_TORCH_CHECK(ptr.dim() == 1 && ptr.size(0) > 0, "ptr must have one axis and one entry");
  const ScalarType dtype = values.scalar_type();
  const int64_t sources = values.size(0), heads = values.size(1), channels = values.size(2);
  const int64_t edges = source.size(0), targets = ptr.size(0) - 1;
  STD_TORCH_CHECK(sources > 0 || edges == 0, "there must be no edges where there is no source");
  values = checked("values", values, values, dtype, {sources, heads, channels});
  logits = checked("logits", logits, values, dtype, {edges, heads});
  source = checked_index("source", source, values, edges);
  ptr = checked_index("ptr", ptr, values, targets + 1);
  Tensor out = torch::stable::new_empty(values, {targets, heads, channels});
  Tensor attention = torch::stable::new_empty(values, {edges, heads});
  for_dtype(values, [&](auto zero) {
    using T = decltype(zero);
    const SegmentAttention<T> op{read<T>(values),
                                 read<T>(logits),
                                 read<int64_t>(source),
                                 read<int64_t>(ptr),
                                 sources,
                                 targets,
                                 heads,
                                 channels,
                                 write<T>(out),
                                 write<T>(attention)};
    run(op, edges, values);
  });
  return {out, attention};
}

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, EQUIGEO_DEVICE, library) {
  library.impl("segment_attention", TORCH_BOX(&equigeo::segment_attention_op));
}
