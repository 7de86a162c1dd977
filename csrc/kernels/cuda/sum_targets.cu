#include "kernels/cuda/known_sums.cuh"
#include "kernels/cuda/loaded_kernels.h"

namespace equigeo {

namespace {

using SumKernel = void (*)(SumProducts<float>);

// The kernel of a table, which may have been compiled ahead or at run time.
void launch_known(
    SumKernel kernel, const KnownTable& table, const SumProducts<float>& op, void* stream) {
  const dim3 grid(grid_of(op.edges.rows), static_cast<unsigned>(table.slices()));
  const dim3 block(kWarp, static_cast<unsigned>(table.warps));
  launch_kernel(kernel, grid, block, 0, stream, op);
}

}  // namespace

bool sum_targets(const SumProducts<float>& op, void* stream) {
  if (const LoadedKernels* loaded = loaded_kernels_of(op.plan)) {
    const auto kernel = loaded->at<SumKernel>(LoadedKernels::kSum, op.second);
    launch_known(kernel, loaded->table, op, stream);
    return true;
  }
  return for_known(known_table(op.plan), op.second, [&](auto n, auto zero) {
    constexpr const KnownTable& kTable = *kKnownTables[decltype(n)::value];
    launch_known(sum_known<kTable, decltype(zero)>, kTable, op, stream);
  });
}

}  // namespace equigeo
