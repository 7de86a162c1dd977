#include "args/segments.h"

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launch.h"
#include "math/gather_sum.h"
#include "math/segment_attention.h"

namespace equigeo {
namespace {

// One thread per target and head: rows are short.
template <class T>
__global__ void softmax_rows(SegmentAttention<T> op) {
  for (int64_t i = first_item(); i < op.targets * op.heads; i += item_stride()) {
    const int64_t h = i % op.heads;
    const EdgeRange row = edges_of(op.ptr, i / op.heads);
    T* weights = op.attention + h;
    shift_row(row, op.heads, op.logits + h, weights);
    for (int64_t e = row.begin; e < row.end; ++e) {
      weights[e * op.heads] = exp_of_nonpositive(weights[e * op.heads]);
    }
    normalize_row(row, op.heads, weights);
  }
}

// One thread per channel: neighbouring threads read neighbouring channels of the same rows.
template <class T>
__global__ void attend_rows(SegmentAttention<T> op) {
  const int64_t stride = op.heads * op.channels;
  for (int64_t i = first_item(); i < op.targets * stride; i += item_stride()) {
    const int64_t t = i / stride, first = i % stride;
    const T* weights = op.attention + first / op.channels;
    const WeightedEdges<T> edges{{op.source, op.sources, nullptr}, weights, op.heads};
    gather_sum<T, 1>(edges, edges_of(op.ptr, t), op.values + first, stride, op.out + i);
  }
}

template <class T>
const char* run(const SegmentAttention<T>& op, void*, void* stream) {
  launch_threads(softmax_rows<T>, op.targets * op.heads, stream, op);
  launch_threads(attend_rows<T>, op.targets * op.heads * op.channels, stream, op);
  return launch_error();
}

}  // namespace

EQUIGEO_DEFINE_LAUNCHES(SegmentAttention)

}  // namespace equigeo
