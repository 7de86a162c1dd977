// Compiled once per instruction set: no torch, no C++ standard headers.
#include "kernels/cpu/kernels.h"

#include "kernels/cpu/gather_channels.h"
#include "kernels/cpu/softmax_rows.h"

namespace equigeo {
namespace {

template <class T>
int attend_rows(const SegmentAttention<T>& op, int64_t begin, int64_t end) {
  softmax_rows(op.ptr, begin, end, op.heads, op.logits, op.attention);
  int stray = 0;
  const int64_t stride = op.heads * op.channels;
  for (int64_t t = begin; t < end; ++t) {
    for (int64_t h = 0; h < op.heads; ++h) {
      const WeightedEdges<T> edges{{op.source, op.sources, &stray}, op.attention + h, op.heads};
      const int64_t first = h * op.channels;
      T* out = op.out + t * stride + first;
      gather_channels(edges, edges_of(op.ptr, t), op.values + first, stride, out, op.channels);
    }
  }
  return stray;
}

}  // namespace

const Kernels<SegmentAttention> EQUIGEO_FOR_ISA(segment_attention_rows) = {
    attend_rows<float>, attend_rows<double>};

}  // namespace equigeo
