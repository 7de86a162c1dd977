// Compiled once per instruction set: no torch, no C++ standard headers.
#include "kernels/cpu/kernels.h"

#include "kernels/cpu/components.h"
#include "kernels/cpu/dot.h"
#include "kernels/cpu/gather_channels.h"
#include "kernels/cpu/matrix_tile.h"
#include "kernels/cpu/scratch.h"

namespace equigeo {
namespace {

constexpr int64_t kTile = 64;  // rows that are multiplied, or summed, together

// The matrix of each head with padded rows: (heads, channels_out, padded channels).
template <class T>
void pad_matrices(const AttentionConvBackward<T>& op, const T* weight, int64_t stride, T* to) {
  for (int64_t row = 0; row < op.heads * op.channels_out; ++row, to += stride) {
    copy_row(weight + row * op.channels, op.channels, to);
    fill_zero(to + op.channels, stride - op.channels);
  }
}

// Gradients of logits and weights, from the targets.
template <class T>
class TargetRows {
 public:
  explicit TargetRows(const AttentionConvBackward<T>& op)
      : op_(op),
        stride_(padded(op.channels)),
        size_(op.channels_out * stride_),
        memory_(
            3 * Scratch<T>::round_up(op.heads * size_) +
            3 * Scratch<T>::round_up(kTile * stride_)) {
    if (failed()) {
      return;
    }
    matrices_ = memory_.take(op.heads * size_);
    to_weight_ = memory_.take(op.heads * size_);
    to_self_ = memory_.take(op.heads * size_);
    averages_ = memory_.take(kTile * stride_);
    own_ = memory_.take(kTile * stride_);
    pulled_ = memory_.take(kTile * stride_);
    pad_matrices(op, op.weight, stride_, matrices_);
    fill_zero(averages_, kTile * stride_);
    fill_zero(own_, kTile * stride_);
  }

  bool failed() const { return memory_.failed(); }

  // All targets of one part.
  int run(int64_t part) {
    fill_zero(to_weight_, op_.heads * size_);
    fill_zero(to_self_, op_.heads * size_);
    const int64_t first = part * op_.rows_of_part, last = first + op_.rows_of_part;
    const int64_t end = last < op_.targets ? last : op_.targets;
    int stray = 0;
    for (int64_t begin = first; begin < end; begin += kTile) {
      stray |= run_tile(begin, end - begin < kTile ? end - begin : kTile);
    }
    const int64_t size = op_.heads * op_.channels_out * op_.channels;
    put(to_weight_, op_.weight_parts + part * size);
    if (op_.self_weight_parts != nullptr) {
      put(to_self_, op_.self_weight_parts + part * size);
    }
    return stray;
  }

 private:
  int run_tile(int64_t begin, int64_t rows) {
    int stray = 0;
    const Index source{op_.source, op_.sources, &stray};
    if (op_.self_weight_parts != nullptr) {
      for (int64_t r = 0; r < rows; ++r) {
        copy_row(op_.x + (begin + r) * op_.channels, op_.channels, own_ + r * stride_);
      }
    }
    const int64_t dim = op_.heads * op_.channels_out;
    for (int64_t h = 0; h < op_.heads; ++h) {
      const T* arriving = op_.grad_out + begin * dim + h * op_.channels_out;
      const RowVectors<T> arriving_rows{arriving, dim};
      const ColumnVectors<T> arriving_columns{arriving, dim};
      multiply_matrix(
          arriving_rows, rows, op_.channels_out, matrices_ + h * size_, stride_, pulled_, false);
      const WeightedEdges<T> edges{source, op_.attention + h, op_.heads};
      for (int64_t r = 0; r < rows; ++r) {
        const EdgeRange row = edges_of(op_.ptr, begin + r);
        T* average = averages_ + r * stride_;
        gather_channels(edges, row, op_.x, op_.channels, average, op_.channels);
        differentiate_row(source, row, h, pulled_ + r * stride_);
      }
      multiply_matrix(
          arriving_columns, op_.channels_out, rows, averages_, stride_, to_weight_ + h * size_,
          true);
      if (op_.self_weight_parts != nullptr) {
        multiply_matrix(
            arriving_columns, op_.channels_out, rows, own_, stride_, to_self_ + h * size_, true);
      }
    }
    return stray;
  }

  // Gradients of the logits of one target, from that of the average of its sources.
  void differentiate_row(const Index& source, EdgeRange row, int64_t h, const T* pulled) {
    for (int64_t e = row.begin; e < row.end; ++e) {
      const int64_t i = e * op_.heads + h;
      const T direct = op_.grad_attention == nullptr ? T(0) : op_.grad_attention[i];
      op_.grad_logits[i] = direct + dot(pulled, op_.x + source[e] * op_.channels, op_.channels);
    }
    softmax_backward_row(row, op_.heads, op_.attention + h, op_.grad_logits + h);
  }

  void put(const T* from, T* to) const {
    for (int64_t row = 0; row < op_.heads * op_.channels_out; ++row) {
      copy_row(from + row * stride_, op_.channels, to + row * op_.channels);
    }
  }

  const AttentionConvBackward<T>& op_;
  int64_t stride_, size_;
  Scratch<T> memory_;
  T *matrices_ = nullptr, *to_weight_ = nullptr, *to_self_ = nullptr;
  T *averages_ = nullptr, *own_ = nullptr, *pulled_ = nullptr;
};

// Gradients of the features: the forward sum and its matrix, both transposed.
template <class T>
class SourceRows {
 public:
  explicit SourceRows(const AttentionConvBackward<T>& op)
      : op_(op),
        stride_(padded(op.channels)),
        size_(op.channels_out * stride_),
        memory_(
            2 * Scratch<T>::round_up(op.heads * size_) +
            Scratch<T>::round_up(kTile * op.channels_out) + Scratch<T>::round_up(kTile * stride_)) {
    if (failed()) {
      return;
    }
    matrices_ = memory_.take(op.heads * size_);
    self_matrices_ = memory_.take(op.heads * size_);
    gathered_ = memory_.take(kTile * op.channels_out);
    sums_ = memory_.take(kTile * stride_);
    pad_matrices(op, op.weight, stride_, matrices_);
    if (op.self_weight != nullptr) {
      pad_matrices(op, op.self_weight, stride_, self_matrices_);
    }
  }

  bool failed() const { return memory_.failed(); }

  int run(int64_t begin, int64_t rows) {
    int stray = 0;
    const Index order{op_.back_order, op_.edges, &stray};
    const Index target{op_.target, op_.targets, &stray};
    const int64_t dim = op_.heads * op_.channels_out;
    const bool in_place = op_.channels == stride_;
    T* grad = op_.grad_x + begin * op_.channels;
    T* to = in_place ? grad : sums_;
    if (op_.heads == 0) {
      fill_zero(to, rows * stride_);
    }
    for (int64_t h = 0; h < op_.heads; ++h) {
      const T* arriving = op_.grad_out + h * op_.channels_out;
      const RowVectors<T> gathered{gathered_, op_.channels_out}, own{arriving + begin * dim, dim};
      const TransposedEdges<T> edges{order, target, op_.attention + h, op_.heads};
      for (int64_t r = 0; r < rows; ++r) {
        gather_channels(
            edges, edges_of(op_.back_ptr, begin + r), arriving, dim,
            gathered_ + r * op_.channels_out, op_.channels_out);
      }
      multiply_matrix(gathered, rows, op_.channels_out, matrices_ + h * size_, stride_, to, h > 0);
      if (op_.self_weight != nullptr) {
        multiply_matrix(own, rows, op_.channels_out, self_matrices_ + h * size_, stride_, to, true);
      }
    }
    for (int64_t r = 0; r < rows && !in_place; ++r) {
      copy_row(sums_ + r * stride_, op_.channels, grad + r * op_.channels);
    }
    return stray;
  }

 private:
  const AttentionConvBackward<T>& op_;
  int64_t stride_, size_;
  Scratch<T> memory_;
  T *matrices_ = nullptr, *self_matrices_ = nullptr, *gathered_ = nullptr, *sums_ = nullptr;
};

template <class T>
int target_parts(const AttentionConvBackward<T>& op, int64_t begin, int64_t end) {
  TargetRows<T> targets(op);
  if (targets.failed()) {
    return kOutOfMemory;
  }
  int stray = 0;
  for (int64_t part = begin; part < end; ++part) {
    stray |= targets.run(part);
  }
  return stray;
}

template <class T>
int source_rows(const AttentionConvBackward<T>& op, int64_t begin, int64_t end) {
  SourceRows<T> sources(op);
  if (sources.failed()) {
    return kOutOfMemory;
  }
  int stray = 0;
  for (; begin < end; begin += kTile) {
    stray |= sources.run(begin, end - begin < kTile ? end - begin : kTile);
  }
  return stray;
}

}  // namespace

const Kernels<AttentionConvBackward> EQUIGEO_FOR_ISA(attention_conv_backward_parts) = {
    target_parts<float>, target_parts<double>};
const Kernels<AttentionConvBackward> EQUIGEO_FOR_ISA(attention_conv_backward_sources) = {
    source_rows<float>, source_rows<double>};

}  // namespace equigeo
