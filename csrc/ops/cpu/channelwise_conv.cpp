// Compiled once per instruction set: no torch, no C++ standard headers.
#include "ops/cpu/channelwise_conv.h"

#include "math/edges.h"
#include "ops/cpu/edge_product.h"
#include "ops/cpu/panel_product.h"

namespace equigeo {
namespace {

template <class T>
int pad(const PadRows<T>& op, int64_t begin, int64_t end) {
  const Paths<T>& paths = op.paths;
  for (int64_t r = begin; r < end; ++r) {
    if (op.output) {
      const T* from = op.from + r * paths.dim_out;
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
      const T* from = op.from + r * paths.dim_x;
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
template <class T, class Row>
class MatrixRun {
 public:
  MatrixRun(EdgeMatrices<T>& matrices, const T* y, int64_t dim_y, Row row)
      : matrices_(matrices), y_(y), dim_y_(dim_y), row_(row) {}

  void add_radial(const ChannelwiseConv<T>& op, T* weights) {
    op_ = &op;
    weights_ = weights;
  }

  // Lane of edge k of a run that goes on to `last`.
  int64_t lane(int64_t k, int64_t last) {
    if (k >= end_) {
      begin_ = k;
      end_ = k + EdgeMatrices<T>::kEdges < last ? k + EdgeMatrices<T>::kEdges : last;
      const T* hidden[kLanes];
      for (int64_t at = begin_; at < end_; ++at) {
        matrices_.load(at - begin_, y_ + row_(at) * dim_y_);
        if (op_ != nullptr) {
          hidden[at - begin_] = op_->hidden + row_(at) * op_->num_hidden;
        }
      }
      matrices_.compute();
      if (op_ != nullptr) {
        multiply_panel(
            hidden, end_ - begin_, op_->num_hidden, op_->radial, op_->radial_stride, weights_);
      }
    }
    return k - begin_;
  }

  const T* weights(int64_t lane) const { return weights_ + lane * op_->radial_stride; }

 private:
  EdgeMatrices<T>& matrices_;
  const T* y_;
  int64_t dim_y_;
  Row row_;
  const ChannelwiseConv<T>* op_ = nullptr;
  T* weights_ = nullptr;
  int64_t begin_ = 0, end_ = 0;
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
const T* row_or_null(const T* rows, int64_t row, int64_t dim) {
  return rows == nullptr ? nullptr : rows + row * dim;
}

template <class T>
int conv_targets(const ChannelwiseConv<T>& op, int64_t begin, int64_t end) {
  const Paths<T>& paths = op.paths;
  Scratch<T> memory(
      PathScratch<T>::size(paths) + EdgeMatrices<T>::size(paths) +
      Scratch<T>::round_up(paths.padded_out) + EdgeMatrices<T>::kEdges * op.radial_stride);
  if (memory.failed()) {
    return kOutOfMemory;
  }
  const PathScratch<T> scratch(paths, memory);
  EdgeMatrices<T> matrices(paths, memory);
  T* sum = memory.take(paths.padded_out);
  T* radial = memory.take(EdgeMatrices<T>::kEdges * op.radial_stride);
  int stray = 0;
  const Index source{op.graph.source, op.graph.sources, &stray};
  const Index order{op.graph.order, op.graph.edges, &stray};
  const auto row_of = [&](int64_t k) { return order[k]; };
  MatrixRun<T, decltype(row_of)> run(matrices, op.y, paths.dim_y, row_of);
  if (op.hidden != nullptr) {
    run.add_radial(op, radial);
  }
  for (int64_t t = begin; t < end; ++t) {
    fill_zero(sum, paths.padded_out);
    for (int64_t k = op.graph.ptr[t]; k < op.graph.ptr[t + 1]; ++k) {
      const int64_t lane = run.lane(k, op.graph.ptr[end]);
      const T* x = op.x + source[k] * paths.padded_x;
      const T* weight = op.hidden != nullptr
                            ? run.weights(lane)
                            : row_or_null(op.weight, order[k], paths.dim_weight);
      for (int64_t p = 0; p < paths.count; ++p) {
        path_forward(
            paths, p, {matrices, lane, first_input(paths, p, x), weight}, output(paths, p, sum),
            true, scratch);
      }
    }
    T* out = op.out + t * paths.dim_out;
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
  }
  return stray ? kStrayIndex : 0;
}

// Gradients of what belongs to edges, target by target.
template <class T>
int conv_backward_edges(const ChannelwiseConvBackward<T>& op, int64_t begin, int64_t end) {
  constexpr int64_t kW = EdgeMatrices<T>::kEdges;
  const Paths<T>& paths = op.paths;
  Scratch<T> memory(
      PathScratch<T>::size(paths) + EdgeMatrices<T>::size(paths) +
      Scratch<T>::round_up(paths.dim_y * kW));
  if (memory.failed()) {
    return kOutOfMemory;
  }
  const PathScratch<T> scratch(paths, memory);
  EdgeMatrices<T> matrices(paths, memory);
  T* grad_y = memory.take(paths.dim_y * kW);
  int stray = 0;
  const Index source{op.graph.source, op.graph.sources, &stray};
  const Index order{op.graph.order, op.graph.edges, &stray};
  const auto row_of = [&](int64_t k) { return order[k]; };
  MatrixRun<T, decltype(row_of)> run(matrices, op.y, paths.dim_y, row_of);
  for (int64_t t = begin; t < end; ++t) {
    const T* grad = op.grad + t * paths.padded_out;
    for (int64_t k = op.graph.ptr[t]; k < op.graph.ptr[t + 1]; ++k) {
      const int64_t lane = run.lane(k, op.graph.ptr[end]);
      const int64_t e = order[k];
      const T* x = op.x + source[k] * paths.padded_x;
      const T* weight = row_or_null(op.weight, e, paths.dim_weight);
      T* grad_weight = op.grad_weight ? op.grad_weight + e * paths.dim_weight : nullptr;
      if (grad_weight != nullptr && !paths.covers_weight) {
        fill_zero(grad_weight, paths.dim_weight);
      }
      fill_zero(grad_y, paths.dim_y * kW);
      for (int64_t p = 0; p < paths.count; ++p) {
        const Components<const T> arriving = {
            grad + paths.place[p].out, padded(paths.path[p].mul)};
        path_backward(
            paths, p, {matrices, lane, first_input(paths, p, x), weight}, arriving,
            {nullptr, grad_weight, grad_y}, scratch);
      }
      sum_registers(grad_y, paths.dim_y, op.grad_y + e * paths.dim_y);
    }
  }
  return stray ? kStrayIndex : 0;
}

// Gradients of the first input, source by source: the forward pass transposed.
template <class T>
int conv_backward_sources(const ChannelwiseConvBackward<T>& op, int64_t begin, int64_t end) {
  const Paths<T>& paths = op.paths;
  Scratch<T> memory(
      PathScratch<T>::size(paths) + EdgeMatrices<T>::size(paths) +
      Scratch<T>::round_up(paths.padded_x));
  if (memory.failed()) {
    return kOutOfMemory;
  }
  const PathScratch<T> scratch(paths, memory);
  EdgeMatrices<T> matrices(paths, memory);
  T* sum = memory.take(paths.padded_x);
  int stray = 0;
  const Index position{op.graph.back_order, op.graph.edges, &stray};
  const Index order{op.graph.order, op.graph.edges, &stray};
  const Index target{op.graph.target, op.graph.targets, &stray};
  const auto row_of = [&](int64_t k) { return order[position[k]]; };
  MatrixRun<T, decltype(row_of)> run(matrices, op.y, paths.dim_y, row_of);
  for (int64_t s = begin; s < end; ++s) {
    fill_zero(sum, paths.padded_x);
    for (int64_t k = op.graph.back_ptr[s]; k < op.graph.back_ptr[s + 1]; ++k) {
      const int64_t lane = run.lane(k, op.graph.back_ptr[end]);
      const T* grad = op.grad + target[position[k]] * paths.padded_out;
      const T* weight = row_or_null(op.weight, row_of(k), paths.dim_weight);
      for (int64_t p = 0; p < paths.count; ++p) {
        const Components<const T> arriving = {
            grad + paths.place[p].out, padded(paths.path[p].mul)};
        T* into = sum + paths.place[p].x;
        const Components<const T> unread{into, padded(paths.path[p].mul)};
        path_backward(
            paths, p, {matrices, lane, unread, weight}, arriving, {into, nullptr, nullptr},
            scratch);
      }
    }
    T* grad_x = op.grad_x + s * paths.dim_x;
    if (!paths.covers_x) {
      fill_zero(grad_x, paths.dim_x);
    }
    for (int64_t i = 0; i < paths.segments; ++i) {
      const Segment1 segment = paths.segment[i];
      put_back(
          sum + segment.place, padded(segment.mul), paths.ir_mul, segment.mul, segment.d,
          grad_x + segment.offset);
    }
  }
  return stray ? kStrayIndex : 0;
}

}  // namespace

const Kernels<PadRows> EQUIGEO_FOR_ISA(pad_rows) = {pad<float>, pad<double>};
const Kernels<ChannelwiseConv> EQUIGEO_FOR_ISA(channelwise_conv_targets) = {
    conv_targets<float>, conv_targets<double>};
const Kernels<ChannelwiseConvBackward> EQUIGEO_FOR_ISA(channelwise_conv_backward_edges) = {
    conv_backward_edges<float>, conv_backward_edges<double>};
const Kernels<ChannelwiseConvBackward> EQUIGEO_FOR_ISA(channelwise_conv_backward_sources) = {
    conv_backward_sources<float>, conv_backward_sources<double>};

}  // namespace equigeo
