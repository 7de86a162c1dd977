#include "ops/principal_axes.h"

#include "ops/device.h"
#include "ops/tensors.h"
#ifdef EQUIGEO_CUDA
#include "ops/cuda/principal_axes.h"
#else
#include "ops/cpu/principal_axes.h"
#endif

#include <optional>
#include <tuple>

namespace equigeo {
namespace {

using Six = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

Six principal_axes_op(
    Tensor x,
    Tensor ptr,
    std::optional<Tensor> weight,
    bool center,
    int64_t signs,
    int64_t scale,
    double null_tol,
    double /*smoothing*/) {
  STD_TORCH_CHECK(x.dim() == 2, "x must be (points, dim)");
  STD_TORCH_CHECK(ptr.dim() == 1 && ptr.size(0) > 0, "ptr must have one axis and one entry");
  const int64_t points = x.size(0), dim = x.size(1), clouds = ptr.size(0) - 1;
  STD_TORCH_CHECK(dim >= 1 && dim <= 3, "x must have 1 to 3 components");
  STD_TORCH_CHECK(signs >= kAsFound && signs <= kLeast, "signs must be from 0 to 3");
  STD_TORCH_CHECK(scale >= kUnscaled && scale <= kPairs, "scale must be from 0 to 3");
  x = checked("x", x, x, x.scalar_type(), {points, dim});
  ptr = checked_index("ptr", ptr, x, clouds + 1);
  if (weight) {
    weight = checked("weight", *weight, x, x.scalar_type(), {points});
  }
  const auto made = [&](std::initializer_list<int64_t> sizes) {
    return torch::stable::new_empty(x, sizes);
  };
  Tensor y = new_result(x, {points, dim}), frame = made({clouds, dim, dim});
  Tensor centroid = made({clouds, dim}), spread = made({clouds, dim}), size = made({clouds, 1});
  Tensor margin = made({clouds, dim});
  for_dtype(x, [&](auto zero) {
    using T = decltype(zero);
    const PrincipalAxes<T> op{
        clouds,
        dim,
        read<T>(x),
        read<int64_t>(ptr),
        weight ? read<T>(*weight) : nullptr,
        center,
        signs,
        scale,
        null_tol,
        write<T>(y),
        write<T>(frame),
        write<T>(centroid),
        write<T>(spread),
        write<T>(size),
        write<T>(margin)};
#ifdef EQUIGEO_CUDA
    check_launch(launch(op, Stream(x).handle()));
#else
    check_offsets("ptr", op.ptr, clouds, points);
    run_rows(EQUIGEO_KERNELS(principal_axes_clouds), op, clouds, points * dim * 16 + clouds * 256);
#endif
  });
  return {y, frame, centroid, spread, size, margin};
}

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, EQUIGEO_DEVICE, library) {
  library.impl("principal_axes", TORCH_BOX(&equigeo::principal_axes_op));
}
