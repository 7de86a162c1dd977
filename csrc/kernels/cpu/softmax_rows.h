// Softmax over the edges of consecutive targets.
#pragma once

#include "kernels/cpu/pack.h"
#include "math/segment_attention.h"

namespace equigeo {
namespace {

template <class Pack, class T>
EQUIGEO_HOST_DEVICE void exponentiate(T* x) {
  Memory<Pack, T>::store(x, exp_of_nonpositive(Memory<Pack, T>::load(x)));
}

// Rows are short, so exponentials are taken over all edges of the chunk at once, a pack at a time.
template <class T>
void softmax_rows(
    const int64_t* ptr, int64_t begin, int64_t end, int64_t heads, const T* logits, T* attention) {
  for (int64_t t = begin; t < end; ++t) {
    for (int64_t h = 0; h < heads; ++h) {
      shift_row(edges_of(ptr, t), heads, logits + h, attention + h);
    }
  }
  constexpr int64_t kStep = kWidth<WidePack<T>, T>;
  T* x = attention + ptr[begin] * heads;
  T* last = attention + ptr[end] * heads;
  for (; last - x >= kStep; x += kStep) {
    exponentiate<WidePack<T>>(x);
  }
  for (; x < last; ++x) {
    exponentiate<T>(x);
  }
  for (int64_t t = begin; t < end; ++t) {
    for (int64_t h = 0; h < heads; ++h) {
      normalize_row(edges_of(ptr, t), heads, attention + h);
    }
  }
}

}  // namespace
}  // namespace equigeo
