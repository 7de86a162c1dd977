#include "ops/spherical_harmonics.h"

#include "ops/harmonics_arguments.h"

namespace equigeo {
namespace {

Tensor spherical_harmonics_op(
    Tensor x, Tensor table, std::vector<int64_t> degrees, bool normalize) {
  const HarmonicsOperands operands(x, table, degrees, normalize);
  Tensor out = new_result(operands.x, {operands.points, operands.dim});
  for_dtype(operands.x, [&](auto zero) {
    using T = decltype(zero);
    auto op = operands.start<SphericalHarmonics, T>();
    op.out = write<T>(out);
#ifdef EQUIGEO_CUDA
    check_launch(launch(op, Stream(operands.x).handle()));
#else
    run_rows(
        EQUIGEO_KERNELS(spherical_harmonics_rows), op, op.points, operands.work(), kLeastPoints);
#endif
  });
  return out;
}

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, EQUIGEO_DEVICE, library) {
  library.impl("spherical_harmonics", TORCH_BOX(&equigeo::spherical_harmonics_op));
}
