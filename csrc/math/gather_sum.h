// The weighted sum of gathered rows, for a few channels.
#pragma once

#include "math/edges.h"

namespace equigeo {
namespace {

// out[c] = sum over the segment of weight_k * rows[row_k * stride + c], for the N packs of channels
// that start at `rows` and `out`. The sums stay in registers.
template <class Pack, int N, class T, class Edges>
EQUIGEO_HOST_DEVICE void gather_sum(
    const Edges& edges, EdgeRange segment, const T* rows, int64_t stride, T* out) {
  constexpr int kStep = kWidth<Pack, T>;
  Pack sum[N] = {};
  for (int64_t k = segment.begin; k < segment.end; ++k) {
    const Edge<T> edge = edges[k];
    const T* row = rows + edge.row * stride;
    EQUIGEO_UNROLL
    for (int n = 0; n < N; ++n) {
      sum[n] += edge.weight * Memory<Pack, T>::load(row + n * kStep);
    }
  }
  EQUIGEO_UNROLL
  for (int n = 0; n < N; ++n) {
    Memory<Pack, T>::store(out + n * kStep, sum[n]);
  }
}

}  // namespace
}  // namespace equigeo
