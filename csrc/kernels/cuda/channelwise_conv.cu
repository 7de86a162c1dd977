#include "args/channelwise_conv.h"

#include "kernels/cuda/differentiate_targets.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/outside_components.h"
#include "kernels/cuda/sum_products.h"

namespace equigeo {
namespace {

template <class S>
struct ForwardScratch {
  Plans<Compute<S>> plans;
  S* x;

  ForwardScratch(const ChannelwiseConv<S>& op, Carver& memory)
      : plans(cut_plans(op.table, memory)),
        x(cut_rows<S>(op.table, op.graph.sources, op.table.dim_x, memory)) {}
};

template <class S>
struct BackwardScratch {
  Plans<Compute<S>> plans;
  S* x;
  S* grad;
  Compute<S>* sums;  // of grad_x, which are not stored as they are computed
  TargetGradients by_targets;

  BackwardScratch(const ChannelwiseConvBackward<S>& op, Carver& memory)
      : plans(cut_plans(op.table, memory)),
        x(cut_rows<S>(op.table, op.graph.sources, op.table.dim_x, memory)),
        grad(cut_rows<S>(op.table, op.graph.targets, op.table.dim_out, memory)),
        sums(cut_sums(op.grad_x, op.graph.sources * op.table.dim_x, memory)) {
    if constexpr (std::is_same_v<S, float>) {
      const bool all = op.weight != nullptr && op.grad_x != nullptr && op.grad_y != nullptr &&
                       op.grad_weight != nullptr && op.spline.position == nullptr;
      by_targets = cut_target_gradients(plans.by_out, arriving_edges(op.graph), all, memory);
    }
  }
};

template <class S>
int64_t size_of(const ChannelwiseConv<S>& op) {
  Carver memory(nullptr);
  ForwardScratch<S>(op, memory);
  return memory.used();
}

template <class S>
int64_t size_of(const ChannelwiseConvBackward<S>& op) {
  Carver memory(nullptr);
  BackwardScratch<S>(op, memory);
  return memory.used();
}

template <class S>
const char* run(const ChannelwiseConv<S>& op, void* memory, void* stream) {
  Carver carver(memory);
  const ForwardScratch<S> scratch(op, carver);
  const char* error = make_plans(op.table, scratch.plans, stream);
  SumProducts<S> sums{};
  sums.plan = scratch.plans.by_out;
  sums.edges = arriving_edges(op.graph);
  sums.x = op.x;
  sums.y = op.y;
  sums.weight = op.weight;
  sums.weight_stride = op.weight_stride;
  sums.radial = op.radial;
  sums.spline = op.spline;
  sums.out = op.out;
  sums.x_ir_mul = true;
  if (error == nullptr && !op.table.ir_mul) {
    error = move_components_outside(
        scratch.plans.by_first, Side::kFirst, op.x, op.graph.sources, scratch.x, stream);
    sums.x = scratch.x;
  }
  return error == nullptr ? sum_products(sums, stream) : error;
}

template <class S>
const char* run(const ChannelwiseConvBackward<S>& op, void* memory, void* stream) {
  Carver carver(memory);
  const BackwardScratch<S> scratch(op, carver);
  const char* error = make_plans(op.table, scratch.plans, stream);
  DifferentiateProducts<S> gradients{};
  gradients.plan = scratch.plans.by_first;
  gradients.edges = leaving_edges(op.graph);
  gradients.grad = op.grad;
  gradients.x = op.x;
  gradients.y = op.y;
  gradients.weight = op.weight;
  gradients.weight_stride = op.weight_stride;
  gradients.grad_x = op.grad_x;
  gradients.grad_y = op.grad_y;
  gradients.grad_weight = op.grad_weight;
  gradients.spline = op.spline;
  gradients.grad_position = op.grad_position;
  gradients.sums = scratch.sums;
  gradients.in_ir_mul = true;
  if (error == nullptr && !op.table.ir_mul) {
    error = move_components_outside(
        scratch.plans.by_first, Side::kFirst, op.x, op.graph.sources, scratch.x, stream);
    gradients.x = scratch.x;
  }
  if (error == nullptr && !op.table.ir_mul) {
    error = move_components_outside(
        scratch.plans.by_first, Side::kOut, op.grad, op.graph.targets, scratch.grad, stream);
    gradients.grad = scratch.grad;
  }
  if constexpr (std::is_same_v<S, float>) {
    gradients.known =
        error == nullptr && differentiate_targets(gradients, scratch.by_targets, stream);
  }
  return error == nullptr ? differentiate_products(gradients, stream) : error;
}

}  // namespace

EQUIGEO_DEFINE_LAUNCHES(ChannelwiseConv)
EQUIGEO_DEFINE_LAUNCH(ChannelwiseConv<Bf16>)
EQUIGEO_DEFINE_LAUNCHES(ChannelwiseConvBackward)
EQUIGEO_DEFINE_LAUNCH(ChannelwiseConvBackward<Bf16>)

}  // namespace equigeo
