// Compiled once per instruction set: no torch, no C++ standard headers.
#include "kernels/cpu/channelwise_conv.h"

#include "kernels/cpu/dot.h"
#include "kernels/cpu/edge_run.h"
#include "kernels/cpu/product_rows.h"
#include "math/edges.h"

namespace equigeo {
namespace {

template <class S>
int pad(const PadRows<S>& op, int64_t begin, int64_t end) {
  using T = Compute<S>;
  const ChannelwisePlan<T>& plan = op.plan;
  const int64_t dim = op.output ? plan.dim_out : plan.dim_x;
  Scratch<T> memory(Scratch<T>::round_up(scratch_row<S>(dim)));
  if (memory.failed()) {
    return kOutOfMemory;
  }
  T* wide = memory.take(scratch_row<S>(dim));
  for (int64_t r = begin; r < end; ++r) {
    const T* from = read_row(op.from + r * dim, dim, wide);
    if (op.output) {
      T* to = op.to + r * plan.padded_out;
      for (int64_t p = 0; p < plan.count; ++p) {
        const Path& path = plan.path[p];
        if (plan.layout[p].first_into_output) {
          fetch(
              from + path.out.offset, plan.ir_mul, path.x.mul, path.out.d, to + plan.layout[p].out,
              padded(path.x.mul));
        }
      }
    } else {
      T* to = op.to + r * plan.padded_x;
      for (int64_t s = 0; s < plan.segments; ++s) {
        const PaddedSegment segment = plan.segment[s];
        fetch(
            from + segment.offset, plan.ir_mul, segment.mul, segment.d, to + segment.padded,
            padded(segment.mul));
      }
    }
  }
  return 0;
}

template <class S>
int conv_targets(const PlannedChannelwiseConv<S>& op, int64_t begin, int64_t end) {
  using T = Compute<S>;
  const ChannelwisePlan<T>& plan = op.plan;
  int stray = 0;
  const Index source{op.graph.source, op.graph.sources, &stray};
  const Index order{op.graph.order, op.graph.edges, &stray};
  const auto row_of = [&](int64_t k) { return order[k]; };
  using Run = EdgeRun<S, decltype(row_of)>;
  const int64_t radial = Run::kEdges * op.radial.stride + op.spline.stride;
  Scratch<T> memory(
      PathScratch<T>::size(plan) + Run::size(plan) + Scratch<T>::round_up(plan.padded_out) +
      RowWriter<S>::size(plan.dim_out) + Scratch<T>::round_up(radial));
  if (memory.failed()) {
    return kOutOfMemory;
  }
  const PathScratch<T> scratch(plan, memory);
  Run run(plan, memory, op.y, op.weight, op.weight_stride, row_of);
  T* sum = memory.take(plan.padded_out);
  RowWriter<S> rows(plan.dim_out, false, memory);
  if (op.radial.hidden != nullptr) {
    run.add_radial(op.radial, memory.take(radial));
  } else if (op.spline.position != nullptr) {
    run.add_spline(op.spline, memory.take(radial), false, &stray);
  }
  for (int64_t t = begin; t < end; ++t) {
    fill_zero(sum, plan.padded_out);
    for (int64_t k = op.graph.ptr[t]; k < op.graph.ptr[t + 1]; ++k) {
      run.go(k, op.graph.ptr[end]);
      run.read_weights();
      const T* x = op.padded_x + source[k] * plan.padded_x;
      for (int64_t p = 0; p < plan.count; ++p) {
        path_forward(plan, p, run.at(first_input(plan, p, x)), output(plan, p, sum), true, scratch);
      }
    }
    put_back_output(plan, sum, rows.begin(op.out + t * plan.dim_out));
    rows.finish();
  }
  return stray ? kStrayIndex : 0;
}

// Gradients of what belongs to edges, and what each edge adds to the gradient of its source. The
// gradient of a target stays in the cache for all of its edges.
template <class S>
int conv_backward_edges(const PlannedChannelwiseConvBackward<S>& op, int64_t begin, int64_t end) {
  using T = Compute<S>;
  const ChannelwisePlan<T>& plan = op.plan;
  const SplineWeights<T>& spline = op.spline;
  int stray = 0;
  const Index source{op.graph.source, op.graph.sources, &stray};
  const Index target{op.graph.target, op.graph.targets, &stray};
  const Index order{op.graph.order, op.graph.edges, &stray};
  const auto row_of = [&](int64_t k) { return order[k]; };
  using Run = EdgeRun<S, decltype(row_of)>;
  Scratch<T> memory(
      PathScratch<T>::size(plan) + Run::size(plan) +
      Scratch<T>::round_up(plan.dim_y * Run::kEdges) + RowWriter<S>::size(plan.dim_y) +
      RowWriter<S>::size(plan.dim_weight, op.stream_weight) +
      Scratch<T>::round_up(3 * spline.stride));
  if (memory.failed()) {
    return kOutOfMemory;
  }
  const PathScratch<T> scratch(plan, memory);
  Run run(plan, memory, op.y, op.weight, op.weight_stride, row_of);
  T* registers = memory.take(plan.dim_y * Run::kEdges);
  RowWriter<S> rows_y(plan.dim_y, false, memory);
  RowWriter<S> rows_weight(plan.dim_weight, op.stream_weight, memory);
  T* to_weight = nullptr;  // the gradient of weights that are a spline
  if (spline.position != nullptr) {
    to_weight = memory.take(3 * spline.stride);
    fill_zero(to_weight, spline.stride);
    run.add_spline(spline, to_weight + spline.stride, true, &stray);
  }
  for (int64_t i = begin; i < end; ++i) {
    const int64_t k = op.first + i;
    run.go(k, op.first + end);
    run.read_weights();
    const T* grad = op.padded_grad + target[k] * plan.padded_out;
    const T* x = op.padded_x + source[k] * plan.padded_x;
    T* share = op.share == nullptr ? nullptr : op.share + i * plan.padded_x;
    T* grad_weight = to_weight;
    if (to_weight == nullptr) {
      grad_weight = rows_weight.begin(row_or_null(op.grad_weight, run.edge(), plan.dim_weight));
      if (grad_weight != nullptr && !plan.covers_weight) {
        fill_zero(grad_weight, plan.dim_weight);
      }
    }
    if (share != nullptr) {
      fill_zero(share, plan.padded_x);
    }
    fill_zero(registers, plan.dim_y * Run::kEdges);
    for (int64_t p = 0; p < plan.count; ++p) {
      T* into = share == nullptr ? nullptr : share + plan.layout[p].x;
      path_backward(
          plan, p, run.at(first_input(plan, p, x)), arriving(plan, p, grad),
          {into, grad_weight, registers}, scratch);
    }
    if (to_weight == nullptr) {
      rows_weight.finish();
    } else if constexpr (!kCopies<S>) {
      op.grad_position[run.edge()] = dot<T>(to_weight, run.weight_slopes(), spline.stride);
    }
    sum_registers(registers, plan.dim_y, rows_y.begin(op.grad_y + run.edge() * plan.dim_y));
    rows_y.finish();
  }
  finish_streams();
  return stray ? kStrayIndex : 0;
}

// Add the shares of edges to their sources in the order of positions, for some columns.
template <class S>
int add_shares(const PlannedChannelwiseConvBackward<S>& op, int64_t begin, int64_t end) {
  using T = Compute<S>;
  constexpr int64_t kW = kWidth<WidePack<T>, T>;
  const int64_t dim = op.plan.padded_x;
  int stray = 0;
  const Index source{op.graph.source, op.graph.sources, &stray};
  for (int64_t i = 0; i < op.count; ++i) {
    const T* share = op.share + i * dim;
    T* sum = op.sum + source[op.first + i] * dim;
    for (int64_t c = begin * kColumns; c < end * kColumns; c += kW) {
      using M = Memory<WidePack<T>, T>;
      M::store(sum + c, M::load(sum + c) + M::load(share + c));
    }
  }
  return stray ? kStrayIndex : 0;
}

template <class S>
int put_back(const PutBackRows<S>& op, int64_t begin, int64_t end) {
  using T = Compute<S>;
  const ChannelwisePlan<T>& plan = op.plan;
  Scratch<T> memory(RowWriter<S>::size(plan.dim_x));
  if (memory.failed()) {
    return kOutOfMemory;
  }
  RowWriter<S> rows(plan.dim_x, false, memory);
  for (int64_t r = begin; r < end; ++r) {
    put_back_first_input(plan, op.from + r * plan.padded_x, rows.begin(op.to + r * plan.dim_x));
    rows.finish();
  }
  return 0;
}

}  // namespace

const Kernels<PadRows> EQUIGEO_FOR_ISA(pad_rows) = {pad<float>, pad<double>, pad<Bf16>};
const Kernels<PutBackRows> EQUIGEO_FOR_ISA(put_back_rows) = {
    put_back<float>, put_back<double>, put_back<Bf16>};
const Kernels<PlannedChannelwiseConv> EQUIGEO_FOR_ISA(channelwise_conv_targets) = {
    conv_targets<float>, conv_targets<double>, conv_targets<Bf16>};
const Kernels<PlannedChannelwiseConvBackward> EQUIGEO_FOR_ISA(channelwise_conv_backward_edges) = {
    conv_backward_edges<float>, conv_backward_edges<double>, conv_backward_edges<Bf16>};
const Kernels<PlannedChannelwiseConvBackward> EQUIGEO_FOR_ISA(channelwise_conv_backward_shares) = {
    add_shares<float>, add_shares<double>, add_shares<Bf16>};

}  // namespace equigeo
