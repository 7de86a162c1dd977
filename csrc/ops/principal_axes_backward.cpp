#include "ops/device.h"
#include "ops/principal_axes.h"
#include "ops/tensors.h"
#ifdef EQUIGEO_CUDA
#include "ops/cuda/principal_axes.h"
#else
#include "ops/cpu/principal_axes.h"
#endif

#include <limits>
#include <optional>

namespace equigeo {
namespace {

constexpr double kRoundings = 32;  // as ROUNDING in equigeo/ops/clouds/principal_axes_backward.py

Tensor principal_axes_backward_op(
    Tensor grad_y,
    Tensor grad_frame,
    Tensor grad_centroid,
    Tensor grad_spread,
    Tensor grad_scale,
    Tensor y,
    Tensor frame,
    Tensor spread,
    Tensor scale,
    Tensor ptr,
    std::optional<Tensor> weight,
    bool center,
    int64_t kind,
    double smoothing) {
  STD_TORCH_CHECK(y.dim() == 2, "y must be (points, dim)");
  STD_TORCH_CHECK(ptr.dim() == 1 && ptr.size(0) > 0, "ptr must have one axis and one entry");
  const int64_t points = y.size(0), dim = y.size(1), clouds = ptr.size(0) - 1;
  STD_TORCH_CHECK(dim >= 1 && dim <= 3, "y must have 1 to 3 components");
  STD_TORCH_CHECK(kind >= kUnscaled && kind <= kPairs, "kind must be from 0 to 3");
  const ScalarType dtype = y.scalar_type();
  y = checked("y", y, y, dtype, {points, dim});
  grad_y = checked("grad_y", grad_y, y, dtype, {points, dim});
  for (Tensor* square : {&grad_frame, &frame}) {
    *square = checked("frame", *square, y, dtype, {clouds, dim, dim});
  }
  for (Tensor* rows : {&grad_centroid, &grad_spread, &spread}) {
    *rows = checked("a result", *rows, y, dtype, {clouds, dim});
  }
  for (Tensor* numbers : {&grad_scale, &scale}) {
    *numbers = checked("scale", *numbers, y, dtype, {clouds, 1});
  }
  ptr = checked_index("ptr", ptr, y, clouds + 1);
  if (weight) {
    weight = checked("weight", *weight, y, dtype, {points});
  }
  Tensor grad_x = new_result(y, {points, dim});
  for_dtype(y, [&](auto zero) {
    using T = decltype(zero);
    PrincipalAxesBackward<T> op{};
    op.clouds = clouds;
    op.dim = dim;
    op.grad_y = read<T>(grad_y);
    op.grad_frame = read<T>(grad_frame);
    op.grad_centroid = read<T>(grad_centroid);
    op.grad_spread = read<T>(grad_spread);
    op.grad_size = read<T>(grad_scale);
    op.y = read<T>(y);
    op.frame = read<T>(frame);
    op.spread = read<T>(spread);
    op.size = read<T>(scale);
    op.ptr = read<int64_t>(ptr);
    op.weight = weight ? read<T>(*weight) : nullptr;
    op.center = center;
    op.scale = kind;
    op.smoothing = smoothing;
    op.rounding = kRoundings * std::numeric_limits<T>::epsilon();
    op.grad_x = write<T>(grad_x);
#ifdef EQUIGEO_CUDA
    check_launch(launch(op, Stream(y).handle()));
#else
    check_offsets("ptr", op.ptr, clouds, points);
    run_rows(
        EQUIGEO_KERNELS(principal_axes_backward_clouds), op, clouds,
        points * dim * 16 + clouds * 256);
#endif
  });
  return grad_x;
}

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, EQUIGEO_DEVICE, library) {
  library.impl("principal_axes_backward", TORCH_BOX(&equigeo::principal_axes_backward_op));
}
