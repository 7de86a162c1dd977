// Compiled once per instruction set: no torch, no C++ standard headers.
#include "ops/cpu/channelwise_conv.h"

#include "math/edges.h"
#include "ops/cpu/edge_product.h"
#include "ops/cpu/panel_product.h"
#include "ops/cpu/rows.h"

namespace equigeo {
namespace {

template <class S>
int pad(const PadRows<S>& op, int64_t begin, int64_t end) {
  using T = Compute<S>;
  const Paths<T>& paths = op.paths;
  const int64_t dim = op.output ? paths.dim_out : paths.dim_x;
  Scratch<T> memory(Scratch<T>::round_up(scratch_row<S>(dim)));
  if (memory.failed()) {
    return kOutOfMemory;
  }
  T* wide = memory.take(scratch_row<S>(dim));
  for (int64_t r = begin; r < end; ++r) {
    const T* from = read_row(op.from + r * dim, dim, wide);
    if (op.output) {
      T* to = op.to + r * paths.padded_out;
      for (int64_t p = 0; p < paths.count; ++p) {
        const Path& path = paths.path[p];
        if (paths.place[p].opens) {
          fetch(
              from + path.out, paths.ir_mul, path.mul, path.d3, to + paths.place[p].out,
              padded(path.mul));
        }
      }
    } else {
      T* to = op.to + r * paths.padded_x;
      for (int64_t s = 0; s < paths.segments; ++s) {
        const Segment1 segment = paths.segment[s];
        fetch(
            from + segment.offset, paths.ir_mul, segment.mul, segment.d, to + segment.place,
            padded(segment.mul));
      }
    }
  }
  return 0;
}

// Matrices of a run of edges, a register of them at a time, and their weights where those are
// linear in hidden numbers.
template <class S, class Row>
class EdgeRun {
 public:
  using T = Compute<S>;
  static constexpr int64_t kEdges = EdgeMatrices<T>::kEdges;

  EdgeRun(const Paths<T>& paths, Scratch<T>& memory, const S* y, const S* weight, Row row)
      : paths_(paths),
        matrices_(paths, memory),
        y_(y),
        weight_(weight),
        row_(row),
        wide_y_(memory.take(scratch_row<S>(paths.dim_y))),
        wide_weight_(memory.take(scratch_row<S>(paths.dim_weight))) {}

  static int64_t size(const Paths<T>& paths) {
    return EdgeMatrices<T>::size(paths) + Scratch<T>::round_up(scratch_row<S>(paths.dim_y)) +
           Scratch<T>::round_up(scratch_row<S>(paths.dim_weight));
  }

  void add_radial(const ChannelwiseConv<S>& op, T* weights) {
    radial_ = &op;
    radial_weights_ = weights;
  }

  // Go to edge k of a run that goes on to `last`.
  void go(int64_t k, int64_t last) {
    if (k >= end_) {
      begin_ = k;
      end_ = k + kEdges < last ? k + kEdges : last;
      load();
    }
    lane_ = k - begin_;
    edge_ = row_(k);
  }

  int64_t edge() const { return edge_; }

  PathRow<T> at(Components<const T> x) const { return {matrices_, lane_, x, weights_}; }

  // The weights of the edge, once for all of its paths.
  void read_weights() {
    weights_ = radial_ != nullptr ? radial_weights_ + lane_ * radial_->radial_stride
                                  : read_row(
                                        row_or_null(weight_, edge_, paths_.dim_weight),
                                        paths_.dim_weight, wide_weight_);
  }

 private:
  void load() {
    for (int64_t k = begin_; k < end_; ++k) {
      const S* y = y_ + row_(k) * paths_.dim_y;
      matrices_.load(k - begin_, read_row(y, paths_.dim_y, wide_y_));
    }
    matrices_.compute();
    if constexpr (!kCopies<S>) {
      if (radial_ != nullptr) {
        const T* hidden[kLanes];
        for (int64_t k = begin_; k < end_; ++k) {
          hidden[k - begin_] = radial_->hidden + row_(k) * radial_->num_hidden;
        }
        multiply_panel(
            hidden, end_ - begin_, radial_->num_hidden, radial_->radial, radial_->radial_stride,
            radial_weights_);
      }
    }
  }

  const Paths<T>& paths_;
  EdgeMatrices<T> matrices_;
  const S* y_;
  const S* weight_;
  Row row_;
  T* wide_y_;
  T* wide_weight_;
  const ChannelwiseConv<S>* radial_ = nullptr;
  T* radial_weights_ = nullptr;
  const T* weights_ = nullptr;
  int64_t begin_ = 0, end_ = 0, lane_ = 0, edge_ = 0;
};

template <class T>
Components<const T> first_input(const Paths<T>& paths, int64_t p, const T* row) {
  return {row + paths.place[p].x, padded(paths.path[p].mul)};
}

template <class T>
Components<T> output(const Paths<T>& paths, int64_t p, T* row) {
  return {row + paths.place[p].out, padded(paths.path[p].mul)};
}

template <class T>
Components<const T> arriving(const Paths<T>& paths, int64_t p, const T* row) {
  return {row + paths.place[p].out, padded(paths.path[p].mul)};
}

template <class S>
int conv_targets(const ChannelwiseConv<S>& op, int64_t begin, int64_t end) {
  using T = Compute<S>;
  const Paths<T>& paths = op.paths;
  int stray = 0;
  const Index source{op.graph.source, op.graph.sources, &stray};
  const Index order{op.graph.order, op.graph.edges, &stray};
  const auto row_of = [&](int64_t k) { return order[k]; };
  using Run = EdgeRun<S, decltype(row_of)>;
  const int64_t radial = Run::kEdges * op.radial_stride;
  Scratch<T> memory(
      PathScratch<T>::size(paths) + Run::size(paths) + Scratch<T>::round_up(paths.padded_out) +
      RowWriter<S>::size(paths.dim_out) + Scratch<T>::round_up(radial));
  if (memory.failed()) {
    return kOutOfMemory;
  }
  const PathScratch<T> scratch(paths, memory);
  Run run(paths, memory, op.y, op.weight, row_of);
  T* sum = memory.take(paths.padded_out);
  RowWriter<S> rows(paths.dim_out, false, memory);
  if (op.hidden != nullptr) {
    run.add_radial(op, memory.take(radial));
  }
  for (int64_t t = begin; t < end; ++t) {
    fill_zero(sum, paths.padded_out);
    for (int64_t k = op.graph.ptr[t]; k < op.graph.ptr[t + 1]; ++k) {
      run.go(k, op.graph.ptr[end]);
      run.read_weights();
      const T* x = op.padded_x + source[k] * paths.padded_x;
      for (int64_t p = 0; p < paths.count; ++p) {
        path_forward(
            paths, p, run.at(first_input(paths, p, x)), output(paths, p, sum), true, scratch);
      }
    }
    T* out = rows.begin(op.out + t * paths.dim_out);
    if (!paths.covers) {
      fill_zero(out, paths.dim_out);
    }
    for (int64_t p = 0; p < paths.count; ++p) {
      const Path& path = paths.path[p];
      if (paths.place[p].opens) {
        const Components<T> from = output(paths, p, sum);
        put_back(from.data, from.stride, paths.ir_mul, path.mul, path.d3, out + path.out);
      }
    }
    rows.finish();
  }
  return stray ? kStrayIndex : 0;
}

// Gradients of what belongs to edges, target by target.
template <class S>
int conv_backward_edges(const ChannelwiseConvBackward<S>& op, int64_t begin, int64_t end) {
  using T = Compute<S>;
  const Paths<T>& paths = op.paths;
  int stray = 0;
  const Index source{op.graph.source, op.graph.sources, &stray};
  const Index order{op.graph.order, op.graph.edges, &stray};
  const auto row_of = [&](int64_t k) { return order[k]; };
  using Run = EdgeRun<S, decltype(row_of)>;
  Scratch<T> memory(
      PathScratch<T>::size(paths) + Run::size(paths) +
      Scratch<T>::round_up(paths.dim_y * Run::kEdges) + RowWriter<S>::size(paths.dim_y) +
      RowWriter<S>::size(paths.dim_weight));
  if (memory.failed()) {
    return kOutOfMemory;
  }
  const PathScratch<T> scratch(paths, memory);
  Run run(paths, memory, op.y, op.weight, row_of);
  T* registers = memory.take(paths.dim_y * Run::kEdges);
  RowWriter<S> rows_y(paths.dim_y, false, memory), rows_weight(paths.dim_weight, false, memory);
  for (int64_t t = begin; t < end; ++t) {
    const T* grad = op.padded_grad + t * paths.padded_out;
    for (int64_t k = op.graph.ptr[t]; k < op.graph.ptr[t + 1]; ++k) {
      run.go(k, op.graph.ptr[end]);
      run.read_weights();
      const T* x = op.padded_x + source[k] * paths.padded_x;
      T* grad_weight = rows_weight.begin(row_or_null(op.grad_weight, run.edge(), paths.dim_weight));
      if (grad_weight != nullptr && !paths.covers_weight) {
        fill_zero(grad_weight, paths.dim_weight);
      }
      fill_zero(registers, paths.dim_y * Run::kEdges);
      for (int64_t p = 0; p < paths.count; ++p) {
        path_backward(
            paths, p, run.at(first_input(paths, p, x)), arriving(paths, p, grad),
            {nullptr, grad_weight, registers}, scratch);
      }
      rows_weight.finish();
      sum_registers(registers, paths.dim_y, rows_y.begin(op.grad_y + run.edge() * paths.dim_y));
      rows_y.finish();
    }
  }
  return stray ? kStrayIndex : 0;
}

// Gradients of the first input, source by source: the forward pass transposed.
template <class S>
int conv_backward_sources(const ChannelwiseConvBackward<S>& op, int64_t begin, int64_t end) {
  using T = Compute<S>;
  const Paths<T>& paths = op.paths;
  int stray = 0;
  const Index position{op.graph.back_order, op.graph.edges, &stray};
  const Index order{op.graph.order, op.graph.edges, &stray};
  const Index target{op.graph.target, op.graph.targets, &stray};
  const auto row_of = [&](int64_t k) { return order[position[k]]; };
  using Run = EdgeRun<S, decltype(row_of)>;
  Scratch<T> memory(
      PathScratch<T>::size(paths) + Run::size(paths) + Scratch<T>::round_up(paths.padded_x) +
      RowWriter<S>::size(paths.dim_x));
  if (memory.failed()) {
    return kOutOfMemory;
  }
  const PathScratch<T> scratch(paths, memory);
  Run run(paths, memory, op.y, op.weight, row_of);
  T* sum = memory.take(paths.padded_x);
  RowWriter<S> rows(paths.dim_x, false, memory);
  for (int64_t s = begin; s < end; ++s) {
    fill_zero(sum, paths.padded_x);
    for (int64_t k = op.graph.back_ptr[s]; k < op.graph.back_ptr[s + 1]; ++k) {
      run.go(k, op.graph.back_ptr[end]);
      run.read_weights();
      const T* grad = op.padded_grad + target[position[k]] * paths.padded_out;
      for (int64_t p = 0; p < paths.count; ++p) {
        T* into = sum + paths.place[p].x;
        path_backward(
            paths, p, run.at({into, padded(paths.path[p].mul)}), arriving(paths, p, grad),
            {into, nullptr, nullptr}, scratch);
      }
    }
    T* grad_x = rows.begin(op.grad_x + s * paths.dim_x);
    if (!paths.covers_x) {
      fill_zero(grad_x, paths.dim_x);
    }
    for (int64_t i = 0; i < paths.segments; ++i) {
      const Segment1 segment = paths.segment[i];
      put_back(
          sum + segment.place, padded(segment.mul), paths.ir_mul, segment.mul, segment.d,
          grad_x + segment.offset);
    }
    rows.finish();
  }
  return stray ? kStrayIndex : 0;
}

}  // namespace

const Kernels<PadRows> EQUIGEO_FOR_ISA(pad_rows) = {pad<float>, pad<double>, pad<Bf16>};
const Kernels<ChannelwiseConv> EQUIGEO_FOR_ISA(channelwise_conv_targets) = {
    conv_targets<float>, conv_targets<double>, conv_targets<Bf16>};
const Kernels<ChannelwiseConvBackward> EQUIGEO_FOR_ISA(channelwise_conv_backward_edges) = {
    conv_backward_edges<float>, conv_backward_edges<double>, conv_backward_edges<Bf16>};
const Kernels<ChannelwiseConvBackward> EQUIGEO_FOR_ISA(channelwise_conv_backward_sources) = {
    conv_backward_sources<float>, conv_backward_sources<double>, conv_backward_sources<Bf16>};

}  // namespace equigeo
