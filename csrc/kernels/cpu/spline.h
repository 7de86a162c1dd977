// Rows of weights that are splines of one number, with their derivatives.
#pragma once

#include "kernels/cpu/pack.h"
#include "math/spline.h"

namespace equigeo {
namespace {

// N packs of columns: the start, and sums over steps with one or two sets of factors.
template <class T, int N, bool kSlopes>
EQUIGEO_HOST_DEVICE void combine_rows(
    const T* value,
    const T* slope,
    int64_t functions,
    const T* start,
    const T* steps,
    int64_t stride,
    T* weights,
    T* slopes) {
  using M = Memory<WidePack<T>, T>;
  constexpr int64_t kW = kWidth<WidePack<T>, T>;
  WidePack<T> sum[N], sum_slopes[N] = {};
  EQUIGEO_UNROLL
  for (int n = 0; n < N; ++n) {
    sum[n] = M::load(start + n * kW);
  }
  for (int64_t f = 0; f < functions; ++f) {
    EQUIGEO_UNROLL
    for (int n = 0; n < N; ++n) {
      const WidePack<T> step = M::load(steps + f * stride + n * kW);
      sum[n] += value[f] * step;
      if constexpr (kSlopes) {
        sum_slopes[n] += slope[f] * step;
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
    int64_t first,
    T* weights,
    T* slopes) {
  constexpr int64_t kW = kWidth<WidePack<T>, T>;
  constexpr int kN = 4;
  const int64_t functions = spline.functions, stride = spline.stride;
  const T* start = spline.matrix + first * stride;
  const T* steps = start + spline.rows * stride;
  int64_t c = 0;
  for (; c + kN * kW <= stride; c += kN * kW) {
    combine_rows<T, kN, kSlopes>(
        value, slope, functions, start + c, steps + c, stride, weights + c, slopes + c);
  }
  for (; c < stride; c += kW) {
    combine_rows<T, 1, kSlopes>(
        value, slope, functions, start + c, steps + c, stride, weights + c, slopes + c);
  }
}

// Weights at a position, and their derivatives unless `slopes` is null.
template <class T>
inline void evaluate_spline(
    const SplineWeights<T>& spline, int64_t first, T position, T* weights, T* slopes) {
  using Pack = WidePack<T>;
  T value[kMostFunctions], slope[kMostFunctions];
  for (int64_t f = 0; f < spline.functions; f += kWidth<Pack, T>) {
    Pack values, derivatives;
    evaluate_functions(spline, f, position, values, derivatives);
    Memory<Pack, T>::store(value + f, values);
    Memory<Pack, T>::store(slope + f, derivatives);
  }
  if (slopes != nullptr) {
    combine_all<T, true>(value, slope, spline, first, weights, slopes);
  } else {
    combine_all<T, false>(value, slope, spline, first, weights, weights);
  }
}

}  // namespace
}  // namespace equigeo
