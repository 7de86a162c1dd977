// Softmax over the edges of one target and one head, forward and backward.
//
// `heads` is the stride from one edge to the next; pointers are to the head in question.
#pragma once

#include "math/edges.h"
#include "math/exp.h"

namespace equigeo {
namespace {

// Logits less the largest of the row, so that their exponentials cannot overflow.
template <class T>
EQUIGEO_HOST_DEVICE void shift_row(EdgeRange row, int64_t heads, const T* logits, T* shifted) {
  if (row.begin == row.end) {
    return;
  }
  T largest = logits[row.begin * heads];
  for (int64_t e = row.begin + 1; e < row.end; ++e) {
    const T logit = logits[e * heads];
    largest = logit > largest ? logit : largest;
  }
  for (int64_t e = row.begin; e < row.end; ++e) {
    shifted[e * heads] = logits[e * heads] - largest;
  }
}

// Divide by the sum of the row.
template <class T>
EQUIGEO_HOST_DEVICE void normalize_row(EdgeRange row, int64_t heads, T* weights) {
  T total = 0;
  for (int64_t e = row.begin; e < row.end; ++e) {
    total += weights[e * heads];
  }
  const T scale = 1 / total;
  for (int64_t e = row.begin; e < row.end; ++e) {
    weights[e * heads] *= scale;
  }
}

// Dot product of two rows over the channels begin, begin + step, ...
template <class Pack, class T>
EQUIGEO_HOST_DEVICE Pack
partial_dot(const T* a, const T* b, int64_t begin, int64_t end, int64_t step) {
  Pack sum = {};
  for (int64_t c = begin; c < end; c += step) {
    sum += Memory<Pack, T>::load(a + c) * Memory<Pack, T>::load(b + c);
  }
  return sum;
}

// Gradient of a softmax, in place: slopes with respect to the weights become slopes with respect
// to the logits.
template <class T>
EQUIGEO_HOST_DEVICE void softmax_backward_row(
    EdgeRange row, int64_t heads, const T* attention, T* slope) {
  T mean = 0;
  for (int64_t e = row.begin; e < row.end; ++e) {
    mean += attention[e * heads] * slope[e * heads];
  }
  for (int64_t e = row.begin; e < row.end; ++e) {
    slope[e * heads] = attention[e * heads] * (slope[e * heads] - mean);
  }
}

}  // namespace
}  // namespace equigeo
