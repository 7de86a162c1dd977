// Compiled once per instruction set: no torch, no C++ standard headers.
#include "kernels/cpu/segment_attention.h"

#include "kernels/cpu/gather_channels.h"
#include "math/segment_attention.h"

namespace equigeo {
namespace {

template <class Pack, class T>
EQUIGEO_HOST_DEVICE void exponentiate(T* x) {
  Memory<Pack, T>::store(x, exp_of_nonpositive(Memory<Pack, T>::load(x)));
}

// Rows are short, so exponentials are taken over all edges of the chunk at once, a pack at a time.
template <class T>
void softmax_rows(const SegmentAttention<T>& op, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    for (int64_t h = 0; h < op.heads; ++h) {
      shift_row(edges_of(op.ptr, t), op.heads, op.logits + h, op.attention + h);
    }
  }
  constexpr int64_t kStep = kWidth<WidePack<T>, T>;
  T* x = op.attention + op.ptr[begin] * op.heads;
  T* last = op.attention + op.ptr[end] * op.heads;
  for (; last - x >= kStep; x += kStep) {
    exponentiate<WidePack<T>>(x);
  }
  for (; x < last; ++x) {
    exponentiate<T>(x);
  }
  for (int64_t t = begin; t < end; ++t) {
    for (int64_t h = 0; h < op.heads; ++h) {
      normalize_row(edges_of(op.ptr, t), op.heads, op.attention + h);
    }
  }
}

template <class T>
int attend_rows(const SegmentAttention<T>& op, int64_t begin, int64_t end) {
  softmax_rows(op, begin, end);
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
