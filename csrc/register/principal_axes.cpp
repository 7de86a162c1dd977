#include "args/principal_axes.h"

#include <limits>
#include <optional>
#include <tuple>

#include "register/device.h"
#include "register/tensors.h"

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
  EQUIGEO_CHECK(x.dim() == 2, "x must be (points, dim)");
  EQUIGEO_CHECK(ptr.dim() == 1 && ptr.size(0) > 0, "ptr must have one axis and one entry");
  const int64_t points = x.size(0), dim = x.size(1), clouds = ptr.size(0) - 1;
  EQUIGEO_CHECK(dim >= 1 && dim <= 3, "x must have 1 to 3 components");
  EQUIGEO_CHECK(
      0 <= signs && signs <= static_cast<int64_t>(Signs::kLeast), "signs must be from 0 to 3");
  EQUIGEO_CHECK(
      0 <= scale && scale <= static_cast<int64_t>(Scale::kPairs), "scale must be from 0 to 3");
  x = checked("x", x, x, x.scalar_type(), {points, dim});
  ptr = checked_index("ptr", ptr, x, clouds + 1);
  if (weight) {
    weight = checked("weight", *weight, x, x.scalar_type(), {points});
  }
  const auto made = [&](std::initializer_list<int64_t> sizes) { return new_tensor(x, sizes); };
  Tensor y = new_result(x, {points, dim}), frame = made({clouds, dim, dim});
  Tensor centroid = made({clouds, dim}), spread = made({clouds, dim}), size = made({clouds, 1});
  Tensor margin = made({clouds, dim});
  for_dtype(x, [&](auto zero) {
    using T = decltype(zero);
    const PrincipalAxes<T> op{
        clouds,
        points,
        dim,
        read<T>(x),
        read<int64_t>(ptr),
        weight ? read<T>(*weight) : nullptr,
        center,
        static_cast<Signs>(signs),
        static_cast<Scale>(scale),
        null_tol,
        write<T>(y),
        write<T>(frame),
        write<T>(centroid),
        write<T>(spread),
        write<T>(size),
        write<T>(margin)};
    run(op, x);
  });
  return {y, frame, centroid, spread, size, margin};
}

constexpr double kRoundings = 32;  // as ROUNDING in equigeo/ops/geometry/principal_axes.py

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
  EQUIGEO_CHECK(y.dim() == 2, "y must be (points, dim)");
  EQUIGEO_CHECK(ptr.dim() == 1 && ptr.size(0) > 0, "ptr must have one axis and one entry");
  const int64_t points = y.size(0), dim = y.size(1), clouds = ptr.size(0) - 1;
  EQUIGEO_CHECK(dim >= 1 && dim <= 3, "y must have 1 to 3 components");
  EQUIGEO_CHECK(
      0 <= kind && kind <= static_cast<int64_t>(Scale::kPairs), "kind must be from 0 to 3");
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
    op.points = points;
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
    op.scale = static_cast<Scale>(kind);
    op.smoothing = smoothing;
    op.rounding = kRoundings * std::numeric_limits<T>::epsilon();
    op.grad_x = write<T>(grad_x);
    run(op, y);
  });
  return grad_x;
}

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, EQUIGEO_DEVICE, library) {
  library.impl("principal_axes", TORCH_BOX(&equigeo::principal_axes_op));
  library.impl("principal_axes_backward", TORCH_BOX(&equigeo::principal_axes_backward_op));
}
