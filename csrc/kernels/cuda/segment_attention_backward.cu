#include "args/segments.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/warp.cuh"
#include "math/gather_sum.h"
#include "math/segment_attention.h"

namespace equigeo {
namespace {

// One warp per edge and head, its lanes over the channels.
template <class T>
__global__ void slope_of_edges(SegmentAttentionBackward<T> op) {
  const Index source{op.source, op.sources, nullptr};
  const Index target{op.target, op.targets, nullptr};
  const int64_t lane = threadIdx.x % kWarp;
  for (int64_t i = first_item() / kWarp; i < op.edges * op.heads; i += item_stride() / kWarp) {
    const int64_t e = i / op.heads, h = i % op.heads;
    const T* arriving = op.grad_out + (target[e] * op.heads + h) * op.channels;
    const T* sent = op.values + (source[e] * op.heads + h) * op.channels;
    const T slope = this_warp().sum(partial_dot<T>(arriving, sent, lane, op.channels, kWarp));
    if (lane == 0) {
      op.grad_logits[i] = slope + (op.grad_attention == nullptr ? T(0) : op.grad_attention[i]);
    }
  }
}

// One thread per target and head: rows are short.
template <class T>
__global__ void target_rows(SegmentAttentionBackward<T> op) {
  for (int64_t i = first_item(); i < op.targets * op.heads; i += item_stride()) {
    const int64_t h = i % op.heads;
    const EdgeRange row = edges_of(op.ptr, i / op.heads);
    softmax_backward_row(row, op.heads, op.attention + h, op.grad_logits + h);
  }
}

// One thread per channel: the forward sum, transposed.
template <class T>
__global__ void source_rows(SegmentAttentionBackward<T> op) {
  const Index order{op.back_order, op.edges, nullptr};
  const Index target{op.target, op.targets, nullptr};
  const int64_t stride = op.heads * op.channels;
  for (int64_t i = first_item(); i < op.sources * stride; i += item_stride()) {
    const int64_t s = i / stride, first = i % stride;
    const T* weights = op.attention + first / op.channels;
    const TransposedEdges<T> edges{order, target, weights, op.heads};
    const EdgeRange segment = edges_of(op.back_ptr, s);
    gather_sum<T, 1>(edges, segment, op.grad_out + first, stride, op.grad_values + i);
  }
}

template <class T>
const char* run(const SegmentAttentionBackward<T>& op, void*, void* stream) {
  launch_threads(slope_of_edges<T>, op.edges * op.heads * kWarp, stream, op);
  launch_threads(target_rows<T>, op.targets * op.heads, stream, op);
  launch_threads(source_rows<T>, op.sources * op.heads * op.channels, stream, op);
  return launch_error();
}

}  // namespace

EQUIGEO_DEFINE_LAUNCHES(SegmentAttentionBackward)

}  // namespace equigeo
