// How gradients of channelwise products and convolutions change along tangents of their operands:
// by the rows of the output the derivative by grad, by those of the first input the three others.
#include "args/channelwise_conv.h"
#include "args/products.h"
#include "kernels/cuda/differentiate_targets.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/outside_components.h"
#include "kernels/cuda/sum_products.h"

namespace equigeo {
namespace {

template <class S, class Op>
SumProducts<S> sums_of(const Op& op) {
  SumProducts<S> sums{};
  sums.x = op.x;
  sums.y = op.y;
  sums.weight = op.weight;
  sums.weight_stride = op.weight_stride;
  sums.out = op.to_grad;
  sums.tangents = {op.x_tangent, op.y_tangent, op.weight_tangent};
  sums.second = true;
  return sums;
}

template <class S, class Op>
DifferentiateProducts<S> gradients_of(const Op& op) {
  DifferentiateProducts<S> gradients{};
  gradients.grad = op.grad;
  gradients.x = op.x;
  gradients.y = op.y;
  gradients.weight = op.weight;
  gradients.weight_stride = op.weight_stride;
  gradients.grad_x = op.to_x;
  gradients.grad_y = op.to_y;
  gradients.grad_weight = op.to_weight;
  gradients.tangents = {op.x_tangent, op.y_tangent, op.weight_tangent};
  gradients.second = true;
  return gradients;
}

// Plans, and sums of what is computed otherwise than it is stored.
template <class S>
struct Scratch {
  Plans<Compute<S>> plans;
  Compute<S>* sums;

  template <class Op>
  Scratch(const Op& op, int64_t rows, Carver& memory)
      : plans(cut_plans(op.table, memory)),
        sums(cut_sums(op.to_x, rows * op.table.dim_x, memory)) {}
};

template <class Op>
bool wants_gradients(const Op& op) {
  return op.to_x != nullptr || op.to_y != nullptr || op.to_weight != nullptr;
}

template <class S>
int64_t size_of(const ChannelwiseProductDoubleBackward<S>& op) {
  Carver memory(nullptr);
  Scratch<S>(op, op.rows, memory);
  return memory.used();
}

template <class S>
const char* run(const ChannelwiseProductDoubleBackward<S>& op, void* memory, void* stream) {
  Carver carver(memory);
  const Scratch<S> scratch(op, op.rows, carver);
  const char* error = make_plans(op.table, scratch.plans, stream);
  if (error == nullptr && op.to_grad != nullptr) {
    SumProducts<S> sums = sums_of<S>(op);
    sums.plan = scratch.plans.by_out;
    sums.edges = own_rows(op.rows);
    sums.x_ir_mul = op.table.ir_mul;
    error = sum_products(sums, stream);
  }
  if (error == nullptr && wants_gradients(op)) {
    DifferentiateProducts<S> gradients = gradients_of<S>(op);
    gradients.plan = scratch.plans.by_first;
    gradients.edges = own_rows(op.rows);
    gradients.sums = scratch.sums;
    gradients.in_ir_mul = op.table.ir_mul;
    error = differentiate_products(gradients, stream);
  }
  return error;
}

// The same, rows with components outside, and what gradients by targets need.
template <class S>
struct ConvScratch : Scratch<S> {
  S *x, *x_tangent, *grad;
  TargetGradients by_targets;

  ConvScratch(const ChannelwiseConvDoubleBackward<S>& op, Carver& memory)
      : Scratch<S>(op, op.graph.sources, memory),
        x(cut_rows<S>(op.table, op.graph.sources, op.table.dim_x, memory)),
        x_tangent(cut_rows<S>(op.table, op.graph.sources, op.table.dim_x, memory)),
        grad(cut_rows<S>(op.table, op.graph.targets, op.table.dim_out, memory)) {
    if constexpr (std::is_same_v<S, float>) {
      const bool all = op.weight != nullptr && op.to_x != nullptr && op.to_y != nullptr &&
                       op.to_weight != nullptr;
      by_targets = cut_target_gradients(this->plans.by_out, arriving_edges(op.graph), all, memory);
    }
  }

  // Move what the op has; null, or what went wrong.
  const char* move(const ChannelwiseConvDoubleBackward<S>& op, void* stream) const {
    const Plan<Compute<S>>& plan = this->plans.by_first;
    const int64_t sources = op.graph.sources;
    const char* error = move_components_outside(plan, Side::kFirst, op.x, sources, x, stream);
    if (error == nullptr && op.x_tangent != nullptr) {
      error = move_components_outside(plan, Side::kFirst, op.x_tangent, sources, x_tangent, stream);
    }
    if (error == nullptr && wants_gradients(op)) {
      error = move_components_outside(plan, Side::kOut, op.grad, op.graph.targets, grad, stream);
    }
    return error;
  }
};

template <class S>
int64_t size_of(const ChannelwiseConvDoubleBackward<S>& op) {
  Carver memory(nullptr);
  ConvScratch<S>(op, memory);
  return memory.used();
}

template <class S>
const char* run(const ChannelwiseConvDoubleBackward<S>& op, void* memory, void* stream) {
  Carver carver(memory);
  const ConvScratch<S> scratch(op, carver);
  SumProducts<S> sums = sums_of<S>(op);
  DifferentiateProducts<S> gradients = gradients_of<S>(op);
  sums.plan = scratch.plans.by_out;
  sums.edges = arriving_edges(op.graph);
  sums.x_ir_mul = true;
  gradients.plan = scratch.plans.by_first;
  gradients.edges = leaving_edges(op.graph);
  gradients.sums = scratch.sums;
  gradients.in_ir_mul = true;
  const char* error = make_plans(op.table, scratch.plans, stream);
  if (error == nullptr && !op.table.ir_mul) {
    error = scratch.move(op, stream);
    sums.x = gradients.x = scratch.x;
    sums.tangents.x = op.x_tangent == nullptr ? nullptr : scratch.x_tangent;
    gradients.tangents.x = sums.tangents.x;
    gradients.grad = scratch.grad;
  }
  if (error == nullptr && op.to_grad != nullptr) {
    error = sum_products(sums, stream);
  }
  if (error == nullptr && wants_gradients(op)) {
    if constexpr (std::is_same_v<S, float>) {
      gradients.known = differentiate_targets(gradients, scratch.by_targets, stream);
    }
    error = differentiate_products(gradients, stream);
  }
  return error;
}

}  // namespace

EQUIGEO_DEFINE_LAUNCHES(ChannelwiseProductDoubleBackward)
EQUIGEO_DEFINE_LAUNCH(ChannelwiseProductDoubleBackward<Bf16>)
EQUIGEO_DEFINE_LAUNCHES(ChannelwiseConvDoubleBackward)
EQUIGEO_DEFINE_LAUNCH(ChannelwiseConvDoubleBackward<Bf16>)

}  // namespace equigeo
