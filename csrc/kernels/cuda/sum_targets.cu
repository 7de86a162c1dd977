#include "kernels/cuda/known_models.h"
#include "kernels/cuda/known_sums.cuh"

namespace equigeo {

bool sum_targets(const SumProducts<float>& op, void* stream) {
  return for_known(known_table(op.plan), op.second, [&](auto n, auto zero) {
    constexpr const KnownTable& kTable = *kKnownTables[decltype(n)::value];
    const dim3 grid(grid_of(op.edges.rows), kTable.slices()), block(kWarp, kTable.warps);
    launch_kernel(sum_known<kTable, decltype(zero)>, grid, block, 0, stream, op);
  });
}

}  // namespace equigeo
