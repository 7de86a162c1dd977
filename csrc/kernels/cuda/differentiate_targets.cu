#include "kernels/cuda/differentiate_targets.h"

#include "kernels/cuda/known_gradients.cuh"
#include "kernels/cuda/loaded_kernels.h"

namespace equigeo {
namespace {

using GradientKernel = void (*)(DifferentiateProducts<float>, TargetGradients, EdgeRange);

// The kernels of a table, which may have been compiled ahead or at run time; that of second inputs
// where a target has several blocks.
struct GradientKernels {
  GradientKernel differentiate, sum_seconds, sum_messages;
};

template <const KnownTable& kTable, class T>
GradientKernels kernels_ahead() {
  GradientKernels kernels{differentiate_known<kTable, T>, nullptr, sum_messages<kTable>};
  if constexpr (kTable.slices() > 1) {
    kernels.sum_seconds = sum_seconds<kTable>;
  }
  return kernels;
}

void launch_known(
    const GradientKernels& kernels,
    const KnownTable& table,
    const DifferentiateProducts<float>& op,
    const TargetGradients& by,
    void* stream) {
  const unsigned slices = static_cast<unsigned>(table.slices());
  const dim3 block(kWarp, static_cast<unsigned>(table.warps));
  const dim3 grid(grid_of(by.edges.rows), slices);
  EdgeRange chunk{0, 0};
  do {  // without edges, gradients are zero
    chunk.begin = chunk.end;
    chunk.end = chunk.begin + by.chunk < by.edges.edges ? chunk.begin + by.chunk : by.edges.edges;
    if (by.edges.rows > 0) {
      launch_kernel(kernels.differentiate, grid, block, 0, stream, op, by, chunk);
    }
    if (slices > 1) {
      const int64_t numbers = (chunk.end - chunk.begin) * table.second;
      launch_threads(kernels.sum_seconds, numbers, stream, op, by, chunk);
    }
    launch_kernel(kernels.sum_messages, grid_of(op.edges.rows), block, 0, stream, op, by, chunk);
  } while (chunk.end < by.edges.edges);
}

}  // namespace

TargetGradients cut_target_gradients(
    const Plan<float>& plan, const EdgeList& edges, bool wanted, Carver& memory) {
  TargetGradients by{plan, edges, nullptr, nullptr, 0, wanted};
  if (const KnownTable* known = wanted ? table_with_kernels(plan) : nullptr) {
    const int64_t seconds = known->slices() > 1 ? known->slices() * known->second : 0;
    by.chunk = chunk_of<float>(edges.edges, known->messages());
    by.messages = memory.take<float>(by.chunk * known->messages());
    by.seconds = memory.take<float>(by.chunk * seconds);
  }
  return by;
}

bool differentiate_targets(
    const DifferentiateProducts<float>& op, const TargetGradients& by, void* stream) {
  if (!by.wanted || op.edges.rows == 0) {
    return false;
  }
  if (const LoadedKernels* loaded = loaded_kernels_of(by.plan)) {
    const GradientKernels kernels{
        loaded->at<GradientKernel>(LoadedKernels::kDifferentiate, op.second),
        loaded->at<GradientKernel>(LoadedKernels::kSumSeconds),
        loaded->at<GradientKernel>(LoadedKernels::kSumMessages)};
    launch_known(kernels, loaded->table, op, by, stream);
    return true;
  }
  return for_known(known_table(by.plan), op.second, [&](auto n, auto zero) {
    constexpr const KnownTable& kTable = *kKnownTables[decltype(n)::value];
    launch_known(kernels_ahead<kTable, decltype(zero)>(), kTable, op, by, stream);
  });
}

}  // namespace equigeo
