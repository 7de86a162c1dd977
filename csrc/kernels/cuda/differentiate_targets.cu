#include "kernels/cuda/differentiate_targets.h"

#include "kernels/cuda/known_gradients.cuh"
#include "kernels/cuda/known_models.h"

namespace equigeo {
namespace {

template <const KnownTable& kTable, class T>
void launch_known(const DifferentiateProducts<float>& op, const TargetGradients& by, void* stream) {
  const dim3 block(kWarp, kTable.warps), grid(grid_of(by.edges.rows), kTable.slices());
  EdgeRange chunk{0, 0};
  do {  // without edges, gradients are zero
    chunk.begin = chunk.end;
    chunk.end = chunk.begin + by.chunk < by.edges.edges ? chunk.begin + by.chunk : by.edges.edges;
    if (by.edges.rows > 0) {
      const auto kernel = differentiate_known<kTable, T>;
      launch_kernel(kernel, grid, block, 0, stream, op, by, chunk);
    }
    if constexpr (kTable.slices() > 1) {
      launch_threads(
          sum_seconds<kTable>, (chunk.end - chunk.begin) * kTable.second, stream, op, by, chunk);
    }
    launch_kernel(sum_messages<kTable>, grid_of(op.edges.rows), block, 0, stream, op, by, chunk);
  } while (chunk.end < by.edges.edges);
}

}  // namespace

TargetGradients cut_target_gradients(
    const Plan<float>& plan, const EdgeList& edges, bool wanted, Carver& memory) {
  TargetGradients by{plan, edges, nullptr, nullptr, 0, wanted};
  if (const KnownTable* known = wanted ? known_table(plan) : nullptr) {
    const int64_t seconds = known->slices() > 1 ? known->slices() * known->second : 0;
    by.chunk = chunk_of<float>(edges.edges, known->messages());
    by.messages = memory.take<float>(by.chunk * known->messages());
    by.seconds = memory.take<float>(by.chunk * seconds);
  }
  return by;
}

bool differentiate_targets(
    const DifferentiateProducts<float>& op, const TargetGradients& by, void* stream) {
  const bool any = by.wanted && op.edges.rows > 0;
  return for_known(any ? known_table(by.plan) : nullptr, op.second, [&](auto n, auto zero) {
    launch_known<*kKnownTables[decltype(n)::value], decltype(zero)>(op, by, stream);
  });
}

}  // namespace equigeo
