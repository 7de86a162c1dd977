#include "args/axis_flags.h"

#include <optional>
#include <tuple>

#include "register/device.h"
#include "register/tensors.h"

namespace equigeo {
namespace {

std::tuple<Tensor, Tensor, Tensor, Tensor> axis_flags_op(
    Tensor spread,
    Tensor margin,
    Tensor centroid,
    Tensor ptr,
    std::optional<Tensor> weight,
    int64_t signs,
    double eps,
    double gap_tol,
    double sign_tol) {
  EQUIGEO_CHECK(spread.dim() == 2, "spread must be (clouds, dim)");
  const ScalarType dtype = spread.scalar_type();
  const int64_t clouds = spread.size(0), dim = spread.size(1);
  EQUIGEO_CHECK(dim >= 1, "spread must have at least one component");
  EQUIGEO_CHECK(
      0 <= signs && signs <= static_cast<int64_t>(Signs::kLeast), "signs must be from 0 to 3");
  for (Tensor* rows : {&spread, &margin, &centroid}) {
    *rows = checked("a result", *rows, spread, dtype, {clouds, dim});
  }
  ptr = checked_index("ptr", ptr, spread, clouds + 1);
  if (weight) {
    EQUIGEO_CHECK(weight->dim() == 1, "weight must be (points,)");
    weight = checked("weight", *weight, spread, dtype, {weight->size(0)});
  }
  Tensor gap = new_tensor(spread, {clouds, dim - 1});
  Tensor ambiguous = new_tensor(spread, {clouds, dim}, ScalarType::Bool);
  Tensor degenerate = new_tensor(spread, {clouds, dim - 1}, ScalarType::Bool);
  Tensor counts = new_zeros(spread, {2}, ScalarType::Long);
  for_dtype(spread, [&](auto zero) {
    using T = decltype(zero);
    AxisFlags<T> op{};
    op.clouds = clouds;
    op.dim = dim;
    op.spread = read<T>(spread);
    op.margin = read<T>(margin);
    op.centroid = read<T>(centroid);
    op.ptr = read<int64_t>(ptr);
    op.weight = weight ? read<T>(*weight) : nullptr;
    op.points = weight ? weight->size(0) : -1;
    op.signs = static_cast<Signs>(signs);
    op.eps = eps;
    op.gap_tol = gap_tol;
    op.sign_tol = sign_tol;
    op.gap = write<T>(gap);
    op.ambiguous = write<bool>(ambiguous);
    op.degenerate = write<bool>(degenerate);
    op.counts = write<int64_t>(counts);
    run(op, spread);
  });
  return {gap, ambiguous, degenerate, counts};
}

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, EQUIGEO_DEVICE, library) {
  library.impl("axis_flags", TORCH_BOX(&equigeo::axis_flags_op));
}
