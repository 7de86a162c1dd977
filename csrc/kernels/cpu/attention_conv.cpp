// Compiled once per instruction set: no torch, no C++ standard headers.
//
// The sources of a target are averaged before the matrix is applied, some targets at a time: their
// averages stay in the nearest cache, and no feature is stored between the input and the result.
#include "kernels/cpu/kernels.h"

#include "kernels/cpu/components.h"
#include "kernels/cpu/gather_channels.h"
#include "kernels/cpu/matrix_tile.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/softmax_rows.h"

namespace equigeo {
namespace {

constexpr int64_t kTile = 32;  // targets whose averages are multiplied together

// The matrix of each head transposed: (heads, channels, padded channels_out).
template <class T>
void transpose_matrices(const AttentionConv<T>& op, const T* weight, int64_t stride, T* to) {
  for (int64_t h = 0; h < op.heads; ++h) {
    for (int64_t c = 0; c < op.channels; ++c, to += stride) {
      const T* from = weight + h * op.channels_out * op.channels + c;
      for (int64_t o = 0; o < stride; ++o) {
        to[o] = o < op.channels_out ? from[o * op.channels] : T(0);
      }
    }
  }
}

template <class T>
class Attended {
 public:
  explicit Attended(const AttentionConv<T>& op)
      : op_(op),
        stride_(padded(op.channels_out)),
        size_(op.channels * stride_),
        memory_(
            2 * Scratch<T>::round_up(op.heads * size_) + Scratch<T>::round_up(kTile * op.channels) +
            Scratch<T>::round_up(kTile * stride_)) {
    if (failed()) {
      return;
    }
    matrices_ = memory_.take(op.heads * size_);
    self_matrices_ = memory_.take(op.heads * size_);
    averages_ = memory_.take(kTile * op.channels);
    sums_ = memory_.take(kTile * stride_);
    transpose_matrices(op, op.weight, stride_, matrices_);
    if (op.self_weight != nullptr) {
      transpose_matrices(op, op.self_weight, stride_, self_matrices_);
    }
  }

  bool failed() const { return memory_.failed(); }

  // Targets [begin, begin + rows), whose weights of attention are known.
  int run(int64_t begin, int64_t rows) {
    int stray = 0;
    const RowVectors<T> averages{averages_, op_.channels};
    const RowVectors<T> own{op_.x + begin * op_.channels, op_.channels};
    const int64_t dim = op_.heads * op_.channels_out;
    const bool in_place = op_.heads == 1 && dim == stride_;
    for (int64_t h = 0; h < op_.heads; ++h) {
      const WeightedEdges<T> edges{{op_.source, op_.sources, &stray}, op_.attention + h, op_.heads};
      for (int64_t r = 0; r < rows; ++r) {
        gather_channels(
            edges, edges_of(op_.ptr, begin + r), op_.x, op_.channels, averages_ + r * op_.channels,
            op_.channels);
      }
      T* out = op_.out + begin * dim + h * op_.channels_out;
      T* to = in_place ? out : sums_;
      multiply_matrix(averages, rows, op_.channels, matrices_ + h * size_, stride_, to, false);
      if (op_.self_weight != nullptr) {
        multiply_matrix(own, rows, op_.channels, self_matrices_ + h * size_, stride_, to, true);
      }
      for (int64_t r = 0; r < rows && !in_place; ++r) {
        copy_row(sums_ + r * stride_, op_.channels_out, out + r * dim);
      }
    }
    return stray;
  }

 private:
  const AttentionConv<T>& op_;
  int64_t stride_, size_;
  Scratch<T> memory_;
  T *matrices_ = nullptr, *self_matrices_ = nullptr, *averages_ = nullptr, *sums_ = nullptr;
};

template <class T>
int attend_rows(const AttentionConv<T>& op, int64_t begin, int64_t end) {
  Attended<T> attended(op);
  if (attended.failed()) {
    return kOutOfMemory;
  }
  int stray = 0;
  for (; begin < end; begin += kTile) {
    const int64_t rows = end - begin < kTile ? end - begin : kTile;
    softmax_rows(op.ptr, begin, begin + rows, op.heads, op.logits, op.attention);
    stray |= attended.run(begin, rows);
  }
  return stray;
}

}  // namespace

const Kernels<AttentionConv> EQUIGEO_FOR_ISA(attention_conv_rows) = {
    attend_rows<float>, attend_rows<double>};

}  // namespace equigeo
