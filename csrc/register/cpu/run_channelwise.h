// Running channelwise products and convolutions on the CPU.
#pragma once

#include <algorithm>
#include <optional>

#include "kernels/cpu/channelwise_conv.h"
#include "kernels/cpu/channelwise_product.h"
#include "register/cpu/plan_cache.h"
#include "register/cpu/result_memory.h"
#include "register/cpu/run_rows.h"

namespace equigeo {

template <class S>
void run(const ChannelwiseProduct<S>& op, const Tensor&) {
  const auto& planner = plan_product(op.table);
  const PlannedChannelwiseProduct<S> planned{op, planner.plan()};
  run_rows(
      EQUIGEO_KERNELS(channelwise_product_rows), planned, op.rows, op.rows * planner.work(),
      kBlock);
}

template <class S>
void run(const ChannelwiseProductBackward<S>& op, const Tensor&) {
  const auto& planner = plan_gradients(op.table);
  const PlannedChannelwiseProductBackward<S> planned{op, planner.plan()};
  run_rows(
      EQUIGEO_KERNELS(channelwise_product_backward_rows), planned, op.rows,
      2 * op.rows * planner.work(), kBlock);
}

template <class S>
void run(const ChannelwiseProductDoubleBackward<S>& op, const Tensor&) {
  const auto& planner = plan_gradients(op.table);
  const PlannedChannelwiseProductDoubleBackward<S> planned{op, planner.plan()};
  run_rows(
      EQUIGEO_KERNELS(channelwise_product_double_backward_rows), planned, op.rows,
      5 * op.rows * planner.work(), kBlock);
}

// Rows of a tensor in the layout of kernels: its own where they are so already.
template <class S>
class PaddedRows {
 public:
  using T = Compute<S>;

  PaddedRows(
      const ChannelwisePlan<T>& plan,
      const S* from,
      int64_t rows,
      bool output,
      const Tensor& like) {
    if constexpr (sizeof(S) == sizeof(T)) {
      if (are_padded(plan, output)) {
        data_ = from;
        return;
      }
    }
    const int64_t size = output ? plan.padded_out : plan.padded_x;
    // A bfloat16 row takes two of its elements for each float.
    memory_ = new_result(like, {rows, size * static_cast<int64_t>(sizeof(T) / sizeof(S))});
    const PadRows<S> op{plan, from, write<T>(memory_), output};
    run_rows(EQUIGEO_KERNELS(pad_rows), op, rows, 1.0 * rows * size);
    data_ = op.to;
  }

  const T* data() const { return data_; }

 private:
  static bool are_padded(const ChannelwisePlan<T>& plan, bool output) {
    bool same = output ? plan.padded_out == plan.dim_out : plan.padded_x == plan.dim_x;
    for (int64_t p = 0; output && p < plan.count; ++p) {
      const Segment& out = plan.path[p].out;
      same &= plan.layout[p].out == out.offset && (plan.ir_mul || out.d == 1);
    }
    for (int64_t s = 0; !output && s < plan.segments; ++s) {
      const PaddedSegment& segment = plan.segment[s];
      same &= segment.padded == segment.offset && (plan.ir_mul || segment.d == 1);
    }
    return same;
  }

  Tensor memory_;
  const T* data_ = nullptr;
};

// The matrix of a radial layer with columns up to whole registers, where it does not come so.
template <class S>
Tensor pad_radial(PlannedChannelwiseConv<S>& op, const Tensor& like) {
  using T = Compute<S>;
  const int64_t weights = op.radial_stride;
  op.radial_stride = (weights + 15) / 16 * 16;
  if (op.radial_stride == weights) {
    return {};
  }
  const ScalarType dtype = sizeof(T) == sizeof(float) ? ScalarType::Float : ScalarType::Double;
  Tensor radial = new_zeros(like, {op.num_hidden, op.radial_stride}, dtype);
  T* to = write<T>(radial);
  for (int64_t h = 0; h < op.num_hidden; ++h) {
    std::copy_n(op.radial + h * weights, weights, to + h * op.radial_stride);
  }
  op.radial = to;
  return radial;
}

// Targets at which about as many edges arrive as go through the matrix of a radial layer at once,
// which is larger than the caches of a core.
inline int64_t targets_together(const Graph& graph) {
  constexpr int64_t kEdges = 16;
  return (kEdges * graph.targets + graph.edges - 1) / std::max<int64_t>(1, graph.edges);
}

template <class S>
void run(const ChannelwiseConv<S>& op, const Tensor& like) {
  const auto& planner = plan_product(op.table);
  const Graph& graph = op.graph;
  check_offsets("ptr", graph.ptr, graph.targets, graph.edges);
  const PaddedRows<S> x(planner.plan(), op.x, graph.sources, false, like);
  PlannedChannelwiseConv<S> planned{op, planner.plan(), x.data()};
  Tensor radial;
  double work = planner.work();
  int64_t least = 1;
  if (op.hidden != nullptr) {
    radial = pad_radial(planned, like);
    work += 1.0 * op.num_hidden * op.table.dim_weight;
    least = targets_together(graph);
  }
  run_rows(
      EQUIGEO_KERNELS(channelwise_conv_targets), planned, graph.targets, graph.edges * work, least);
}

template <class S>
void run(const ChannelwiseConvBackward<S>& op, const Tensor& like) {
  const auto& planner = plan_gradients(op.table);
  const Graph& graph = op.graph;
  check_offsets("ptr", graph.ptr, graph.targets, graph.edges);
  check_offsets("back_ptr", graph.back_ptr, graph.sources, graph.edges);
  const PaddedRows<S> x(planner.plan(), op.x, graph.sources, false, like);
  const PaddedRows<S> grad(planner.plan(), op.grad, graph.targets, true, like);
  const PlannedChannelwiseConvBackward<S> planned{op, planner.plan(), grad.data(), x.data()};
  const double work = graph.edges * planner.work();
  run_rows(EQUIGEO_KERNELS(channelwise_conv_backward_edges), planned, graph.targets, 2 * work);
  run_rows(EQUIGEO_KERNELS(channelwise_conv_backward_sources), planned, graph.sources, work);
}

template <class S>
void run(const ChannelwiseConvDoubleBackward<S>& op, const Tensor& like) {
  const auto& planner = plan_gradients(op.table);
  const Graph& graph = op.graph;
  check_offsets("ptr", graph.ptr, graph.targets, graph.edges);
  check_offsets("back_ptr", graph.back_ptr, graph.sources, graph.edges);
  const PaddedRows<S> grad(planner.plan(), op.grad, graph.targets, true, like);
  const PaddedRows<S> x(planner.plan(), op.x, graph.sources, false, like);
  PlannedChannelwiseConvDoubleBackward<S> planned{
      op, planner.plan(), grad.data(), x.data(), nullptr};
  const double work = graph.edges * planner.work();
  if (op.to_grad != nullptr || op.to_y != nullptr || op.to_weight != nullptr) {
    std::optional<PaddedRows<S>> x_tangent;
    if (op.x_tangent != nullptr) {
      x_tangent.emplace(planner.plan(), op.x_tangent, graph.sources, false, like);
      planned.padded_x_tangent = x_tangent->data();
    }
    run_rows(
        EQUIGEO_KERNELS(channelwise_conv_double_backward_targets), planned, graph.targets,
        5 * work);
  }
  if (op.to_x != nullptr) {
    run_rows(
        EQUIGEO_KERNELS(channelwise_conv_double_backward_sources), planned, graph.sources,
        2 * work);
  }
}

}  // namespace equigeo
