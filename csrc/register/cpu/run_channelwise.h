// Running channelwise products and convolutions on the CPU.
#pragma once

#include <algorithm>
#include <optional>

#include "kernels/cpu/channelwise_conv.h"
#include "kernels/cpu/channelwise_product.h"
#include "register/cpu/channelwise_plan.h"
#include "register/cpu/plan_cache.h"
#include "register/cpu/result_memory.h"
#include "register/cpu/run_rows.h"

namespace equigeo {

// The plan of a table whose gradients can be computed.
template <class T>
const ChannelwisePlanner<T>& plan_gradients(const PathTable<T>& table) {
  ChannelwisePlanner<T>& planner = plan_of<ChannelwisePlanner>(table);
  planner.check_gradients();
  return planner;
}

template <class S>
void run(const ChannelwiseProduct<S>& op, const Tensor&) {
  const auto& planner = plan_of<ChannelwisePlanner>(op.table);
  run_planned(EQUIGEO_SELECT_KERNELS(channelwise_product_rows), op, planner, 1, kBlock);
}

template <class S>
void run(const ChannelwiseProductBackward<S>& op, const Tensor&) {
  const auto& planner = plan_gradients(op.table);
  run_planned(EQUIGEO_SELECT_KERNELS(channelwise_product_backward_rows), op, planner, 2, kBlock);
}

template <class S>
void run(const ChannelwiseProductDoubleBackward<S>& op, const Tensor&) {
  const auto& planner = plan_gradients(op.table);
  run_planned(
      EQUIGEO_SELECT_KERNELS(channelwise_product_double_backward_rows), op, planner, 5, kBlock);
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
    run_rows(EQUIGEO_SELECT_KERNELS(pad_rows), op, rows, 1.0 * rows * size);
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

// A matrix with columns up to whole registers, where it does not come so.
template <class T>
Tensor pad_columns(const T*& matrix, int64_t& stride, int64_t rows, const Tensor& like) {
  const int64_t weights = stride;
  stride = (weights + 15) / 16 * 16;
  if (stride == weights) {
    return {};
  }
  const ScalarType dtype = sizeof(T) == sizeof(float) ? ScalarType::Float : ScalarType::Double;
  Tensor padded = new_zeros(like, {rows, stride}, dtype);
  T* to = write<T>(padded);
  for (int64_t r = 0; r < rows; ++r) {
    std::copy_n(matrix + r * weights, weights, to + r * stride);
  }
  matrix = to;
  return padded;
}

// Targets at which about as many edges arrive as go through the matrix of a radial layer at once,
// which is larger than the caches of a core.
inline int64_t targets_together(const Graph& graph) {
  constexpr int64_t kEdges = 16;
  return (kEdges * graph.targets + graph.edges - 1) / std::max<int64_t>(1, graph.edges);
}

template <class S>
void run(const ChannelwiseConv<S>& op, const Tensor& like) {
  const auto& planner = plan_of<ChannelwisePlanner>(op.table);
  const Graph& graph = op.graph;
  check_offsets("ptr", graph.ptr, graph.targets, graph.edges);
  const PaddedRows<S> x(planner.plan(), op.x, graph.sources, false, like);
  PlannedChannelwiseConv<S> planned{op, planner.plan(), x.data()};
  Tensor radial, basis;
  double work = planner.work();
  int64_t least = 1;
  if (op.radial.hidden != nullptr) {
    auto& layer = planned.radial;
    radial = pad_columns(layer.matrix, layer.stride, layer.num_hidden, like);
    work += 1.0 * layer.num_hidden * op.table.dim_weight;
    least = targets_together(graph);
  } else if (op.spline.position != nullptr) {
    auto& spline = planned.spline;
    radial = pad_columns(spline.matrix, spline.stride, 2 * spline.rows, like);
    basis = pad_columns(spline.basis, spline.basis_stride, spline.functions + 1, like);
    work += 1.0 * spline.functions * op.table.dim_weight;
  }
  run_rows(
      EQUIGEO_SELECT_KERNELS(channelwise_conv_targets), planned, graph.targets, graph.edges * work,
      least);
}

// Edges whose shares of the gradient of the first input are in memory at the same time: 4 MiB. It
// depends on the problem alone, as all sums do.
template <class T>
int64_t edges_together(const ChannelwisePlan<T>& plan) {
  constexpr int64_t kShares = int64_t{1} << 22;
  const int64_t row = plan.padded_x * static_cast<int64_t>(sizeof(T));
  return std::max<int64_t>(kBlock, kShares / std::max<int64_t>(1, row));
}

template <class S>
void run(const ChannelwiseConvBackward<S>& op, const Tensor& like) {
  using T = Compute<S>;
  constexpr int64_t kLeastColumns = 128;                // of rows that are added together
  constexpr int64_t kElements = sizeof(T) / sizeof(S);  // of the tensor, for each number
  const auto& planner = plan_gradients(op.table);
  const auto& plan = planner.plan();
  const Graph& graph = op.graph;
  check_offsets("ptr", graph.ptr, graph.targets, graph.edges);
  check_offsets("back_ptr", graph.back_ptr, graph.sources, graph.edges);
  const PaddedRows<S> x(plan, op.x, graph.sources, false, like);
  const PaddedRows<S> grad(plan, op.grad, graph.targets, true, like);
  PlannedChannelwiseConvBackward<S> planned{op, plan, grad.data(), x.data(),
                                            0,  0,    nullptr,     nullptr};
  Tensor matrix, basis, share, sum;
  double work = 3 * planner.work();
  if (op.spline.position != nullptr) {
    auto& spline = planned.spline;
    matrix = pad_columns(spline.matrix, spline.stride, 2 * spline.rows, like);
    basis = pad_columns(spline.basis, spline.basis_stride, spline.functions + 1, like);
    work += 2.0 * spline.functions * op.table.dim_weight;
  }
  const int64_t together = std::min(graph.edges, edges_together(plan));
  if (op.grad_x != nullptr) {
    share = new_result(like, {together, kElements * plan.padded_x});
    sum = new_zeros(like, {graph.sources, kElements * plan.padded_x}, like.scalar_type());
    planned.share = write<T>(share);
    planned.sum = write<T>(sum);
  }
  for (int64_t first = 0; first < graph.edges; first += together) {
    planned.first = first;
    planned.count = std::min(together, graph.edges - first);
    run_rows(
        EQUIGEO_SELECT_KERNELS(channelwise_conv_backward_edges), planned, planned.count,
        planned.count * work, kBlock);
    if (op.grad_x != nullptr) {
      run_rows(
          EQUIGEO_SELECT_KERNELS(channelwise_conv_backward_shares), planned,
          plan.padded_x / kColumns, 1.0 * planned.count * plan.padded_x, kLeastColumns / kColumns);
    }
  }
  if (op.grad_x != nullptr) {
    const PutBackRows<S> put{plan, planned.sum, op.grad_x};
    run_rows(
        EQUIGEO_SELECT_KERNELS(put_back_rows), put, graph.sources,
        1.0 * graph.sources * plan.dim_x);
  }
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
        EQUIGEO_SELECT_KERNELS(channelwise_conv_double_backward_targets), planned, graph.targets,
        5 * work);
  }
  if (op.to_x != nullptr) {
    run_rows(
        EQUIGEO_SELECT_KERNELS(channelwise_conv_double_backward_sources), planned, graph.sources,
        2 * work);
  }
}

}  // namespace equigeo
