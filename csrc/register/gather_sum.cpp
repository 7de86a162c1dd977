#include "args/segments.h"

#include "register/device.h"
#include "register/tensors.h"

namespace equigeo {
namespace {

// The transposed lists are for the gradient, which Python asks of this same op.
Tensor gather_sum_op(
    Tensor x, Tensor index, Tensor ptr, Tensor /*back_index*/, Tensor /*back_ptr*/) {
  EQUIGEO_CHECK(x.dim() == 2, "x must be (rows, channels)");
  EQUIGEO_CHECK(index.dim() == 1, "index must have one axis");
  EQUIGEO_CHECK(ptr.dim() == 1 && ptr.size(0) > 0, "ptr must have one axis and one entry");
  const int64_t rows = x.size(0), channels = x.size(1), edges = index.size(0);
  const int64_t segments = ptr.size(0) - 1;
  EQUIGEO_CHECK(rows > 0 || edges == 0, "index must be empty where x is");
  x = checked("x", x, x, x.scalar_type(), {rows, channels});
  index = checked_index("index", index, x, edges);
  ptr = checked_index("ptr", ptr, x, segments + 1);
  Tensor out = new_tensor(x, {segments, channels});
  if (all_empty({&out})) {
    return out;
  }
  for_dtype(x, [&](auto zero) {
    using T = decltype(zero);
    const GatherSum<T> op{
        read<T>(x), read<int64_t>(index), read<int64_t>(ptr), rows, segments, edges,
        channels,   write<T>(out)};
    run(op, x);
  });
  return out;
}

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, EQUIGEO_DEVICE, library) {
  library.impl("gather_sum", TORCH_BOX(&equigeo::gather_sum_op));
}
