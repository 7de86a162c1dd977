// Rows of weights that are splines of one number, with their derivatives.
#pragma once

#include "kernels/cpu/pack.h"
#include "math/spline.h"

namespace equigeo {
namespace {

// N packs of columns: sums over the rows of the functions, once or with two sets of factors.
template <class T, int N, bool kSlopes>
EQUIGEO_HOST_DEVICE void combine_rows(
    const T* value,
    const T* slope,
    int64_t functions,
    const T* rows,
    int64_t stride,
    T* weights,
    T* slopes) {
  using M = Memory<WidePack<T>, T>;
  constexpr int64_t kW = kWidth<WidePack<T>, T>;
  WidePack<T> sum[N] = {}, sum_slopes[N] = {};
  for (int64_t f = 0; f < functions; ++f) {
    EQUIGEO_UNROLL
    for (int n = 0; n < N; ++n) {
      const WidePack<T> row = M::load(rows + f * stride + n * kW);
      sum[n] += value[f] * row;
      if constexpr (kSlopes) {
        sum_slopes[n] += slope[f] * row;
      }
    }
  }
  EQUIGEO_UNROLL
  for (int n = 0; n < N; ++n) {
    M::store(weights + n * kW, sum[n]);
    if constexpr (kSlopes) {
      M::store(slopes + n * kW, sum_slopes[n]);
    }
  }
}

template <class T, bool kSlopes>
inline void combine_all(
    const T* value,
    const T* slope,
    const SplineWeights<T>& spline,
    const T* rows,
    T* weights,
    T* slopes) {
  constexpr int64_t kW = kWidth<WidePack<T>, T>;
  constexpr int kN = 4;
  int64_t c = 0;
  for (; c + kN * kW <= spline.stride; c += kN * kW) {
    combine_rows<T, kN, kSlopes>(
        value, slope, spline.functions, rows + c, spline.stride, weights + c, slopes + c);
  }
  for (; c < spline.stride; c += kW) {
    combine_rows<T, 1, kSlopes>(
        value, slope, spline.functions, rows + c, spline.stride, weights + c, slopes + c);
  }
}

// Weights at a position, and their derivatives unless `slopes` is null.
template <class T>
inline void evaluate_spline(
    const SplineWeights<T>& spline, T position, const T* rows, T* weights, T* slopes) {
  T value[kMostFunctions], slope[kMostFunctions];
  for (int64_t f = 0; f < spline.functions; ++f) {
    evaluate_function(spline, f, position, value[f], slope[f]);
  }
  if (slopes != nullptr) {
    combine_all<T, true>(value, slope, spline, rows, weights, slopes);
  } else {
    combine_all<T, false>(value, slope, spline, rows, weights, weights);
  }
}

}  // namespace
}  // namespace equigeo
