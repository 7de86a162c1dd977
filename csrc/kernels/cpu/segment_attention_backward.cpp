// Compiled once per instruction set: no torch, no C++ standard headers.
#include "kernels/cpu/dot.h"
#include "kernels/cpu/gather_channels.h"
#include "kernels/cpu/kernels.h"
#include "math/segment_attention.h"

namespace equigeo {
namespace {

// Gradients of the logits of the edges that arrive at targets [begin, end).
template <class T>
int target_rows(const SegmentAttentionBackward<T>& op, int64_t begin, int64_t end) {
  int stray = 0;
  const Index source{op.source, op.sources, &stray};
  for (int64_t t = begin; t < end; ++t) {
    const EdgeRange row = edges_of(op.ptr, t);
    for (int64_t h = 0; h < op.heads; ++h) {
      const T* arriving = op.grad_out + (t * op.heads + h) * op.channels;
      for (int64_t e = row.begin; e < row.end; ++e) {
        const T* sent = op.values + (source[e] * op.heads + h) * op.channels;
        const int64_t i = e * op.heads + h;
        const T direct = op.grad_attention == nullptr ? T(0) : op.grad_attention[i];
        op.grad_logits[i] = direct + dot(arriving, sent, op.channels);
      }
      softmax_backward_row(row, op.heads, op.attention + h, op.grad_logits + h);
    }
  }
  return stray;
}

// Gradients of the values of sources [begin, end): the forward sum, transposed.
template <class T>
int source_rows(const SegmentAttentionBackward<T>& op, int64_t begin, int64_t end) {
  int stray = 0;
  const Index order{op.back_order, op.edges, &stray};
  const Index target{op.target, op.targets, &stray};
  const int64_t stride = op.heads * op.channels;
  for (int64_t s = begin; s < end; ++s) {
    for (int64_t h = 0; h < op.heads; ++h) {
      const TransposedEdges<T> edges{order, target, op.attention + h, op.heads};
      const int64_t first = h * op.channels;
      T* out = op.grad_values + s * stride + first;
      gather_channels(
          edges, edges_of(op.back_ptr, s), op.grad_out + first, stride, out, op.channels);
    }
  }
  return stray;
}

}  // namespace

const Kernels<SegmentAttentionBackward> EQUIGEO_FOR_ISA(segment_attention_backward_targets) = {
    target_rows<float>, target_rows<double>};
const Kernels<SegmentAttentionBackward> EQUIGEO_FOR_ISA(segment_attention_backward_sources) = {
    source_rows<float>, source_rows<double>};

}  // namespace equigeo
