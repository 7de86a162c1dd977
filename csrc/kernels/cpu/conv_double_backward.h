// A channelwise convolution differentiated twice, without messages.
#pragma once

#include "kernels/cpu/edge_run.h"

namespace equigeo {
namespace {

// A row of padded features, or null where there are none.
template <class T>
inline Components<const T> input_or_null(
    const ChannelwisePlan<T>& plan, int64_t p, const T* rows, int64_t row) {
  return rows == nullptr ? Components<const T>{nullptr, 0}
                         : first_input(plan, p, rows + row * plan.padded_x);
}

// What arrives changes at targets; second operands and weights are those of edges.
template <class S>
int conv_double_backward_targets(
    const PlannedChannelwiseConvDoubleBackward<S>& op, int64_t begin, int64_t end) {
  using T = Compute<S>;
  const ChannelwisePlan<T>& plan = op.plan;
  int stray = 0;
  const Index source{op.graph.source, op.graph.sources, &stray};
  const Index order{op.graph.order, op.graph.edges, &stray};
  const auto row_of = [&](int64_t k) { return order[k]; };
  using Run = EdgeRun<S, decltype(row_of)>;
  Scratch<T> memory(
      TangentScratch<T>::size(plan) + 2 * Run::size(plan) + Scratch<T>::round_up(plan.padded_out) +
      Scratch<T>::round_up(plan.dim_y * Run::kEdges) + RowWriter<S>::size(plan.dim_out) +
      RowWriter<S>::size(plan.dim_y) + RowWriter<S>::size(plan.dim_weight));
  if (memory.failed()) {
    return kOutOfMemory;
  }
  const TangentScratch<T> scratch(plan, memory);
  Run run(plan, memory, op.y, op.weight, op.weight_stride, row_of);
  Run along(plan, memory, op.y_tangent, op.weight_tangent, plan.dim_weight, row_of);
  T* sum = memory.take(plan.padded_out);
  T* registers = memory.take(plan.dim_y * Run::kEdges);
  RowWriter<S> rows_grad(plan.dim_out, false, memory), rows_y(plan.dim_y, false, memory),
      rows_weight(plan.dim_weight, false, memory);
  for (int64_t t = begin; t < end; ++t) {
    const T* grad = op.padded_grad + t * plan.padded_out;
    fill_zero(sum, plan.padded_out);
    for (int64_t k = op.graph.ptr[t]; k < op.graph.ptr[t + 1]; ++k) {
      run.go(k, op.graph.ptr[end]);
      along.go(k, op.graph.ptr[end]);
      run.read_weights();
      along.read_weights();
      T* to_weight = rows_weight.begin(row_or_null(op.to_weight, run.edge(), plan.dim_weight));
      if (to_weight != nullptr && !plan.covers_weight) {
        fill_zero(to_weight, plan.dim_weight);
      }
      fill_zero(registers, plan.dim_y * Run::kEdges);
      for (int64_t p = 0; p < plan.count; ++p) {
        const Components<T> out = op.to_grad ? output(plan, p, sum) : Components<T>{nullptr, 0};
        path_double_backward(
            plan, p, run.at(input_or_null(plan, p, op.padded_x, source[k])),
            along.tangents(input_or_null(plan, p, op.padded_x_tangent, source[k])),
            arriving(plan, p, grad),
            {out, true, {nullptr, to_weight, op.to_y ? registers : nullptr}}, scratch);
      }
      rows_weight.finish();
      if (T* to_y = rows_y.begin(row_or_null(op.to_y, run.edge(), plan.dim_y))) {
        sum_registers(registers, plan.dim_y, to_y);
        rows_y.finish();
      }
    }
    if (T* to_grad = rows_grad.begin(row_or_null(op.to_grad, t, plan.dim_out))) {
      put_back_output(plan, sum, to_grad);
      rows_grad.finish();
    }
  }
  return stray ? kStrayIndex : 0;
}

// First inputs are those of sources.
template <class S>
int conv_double_backward_sources(
    const PlannedChannelwiseConvDoubleBackward<S>& op, int64_t begin, int64_t end) {
  using T = Compute<S>;
  const ChannelwisePlan<T>& plan = op.plan;
  int stray = 0;
  const Index position{op.graph.back_order, op.graph.edges, &stray};
  const Index order{op.graph.order, op.graph.edges, &stray};
  const Index target{op.graph.target, op.graph.targets, &stray};
  const auto row_of = [&](int64_t k) { return order[position[k]]; };
  using Run = EdgeRun<S, decltype(row_of)>;
  Scratch<T> memory(
      TangentScratch<T>::size(plan) + 2 * Run::size(plan) + Scratch<T>::round_up(plan.padded_x) +
      RowWriter<S>::size(plan.dim_x));
  if (memory.failed()) {
    return kOutOfMemory;
  }
  const TangentScratch<T> scratch(plan, memory);
  Run run(plan, memory, op.y, op.weight, op.weight_stride, row_of);
  Run along(plan, memory, op.y_tangent, op.weight_tangent, plan.dim_weight, row_of);
  T* sum = memory.take(plan.padded_x);
  RowWriter<S> rows(plan.dim_x, false, memory);
  for (int64_t s = begin; s < end; ++s) {
    fill_zero(sum, plan.padded_x);
    for (int64_t k = op.graph.back_ptr[s]; k < op.graph.back_ptr[s + 1]; ++k) {
      run.go(k, op.graph.back_ptr[end]);
      along.go(k, op.graph.back_ptr[end]);
      run.read_weights();
      along.read_weights();
      const T* grad = op.padded_grad + target[position[k]] * plan.padded_out;
      for (int64_t p = 0; p < plan.count; ++p) {
        // The form is linear in x, whose values its derivatives by x do not read.
        T* into = sum + plan.layout[p].x;
        path_double_backward(
            plan, p, run.at({into, padded(plan.path[p].x.mul)}), along.tangents({nullptr, 0}),
            arriving(plan, p, grad), {{nullptr, 0}, true, {into, nullptr, nullptr}}, scratch);
      }
    }
    put_back_first_input(plan, sum, rows.begin(op.to_x + s * plan.dim_x));
    rows.finish();
  }
  return stray ? kStrayIndex : 0;
}

}  // namespace
}  // namespace equigeo
