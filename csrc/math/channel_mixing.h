// Mixing the channels of one row by weights of its own, which stream past once.
//
// A coupling of channels u and v is `couplings[v * v_step + k * k_step + u]` for components k < D,
// and its weights are the next row of `row` numbers, one for each channel w of the output. Numbers
// behind a row are read where packs are longer; what they make is not used.
#pragma once

#include "math/host_device.h"

namespace equigeo {

struct Couplings {
  int64_t mul, mul2, k_step, v_step;
};

namespace {

// out_k[w] += sum_uv c_k[v, u] weight[u, v, w], for N packs of w; rows of `out` are `out_step`
// apart.
template <class Pack, int D, int N, class T>
EQUIGEO_HOST_DEVICE void mix_channels(
    const T* couplings,
    const Couplings& size,
    const T* weight,
    int64_t row,
    T* out,
    int64_t out_step) {
  constexpr int kStep = kWidth<Pack, T>;
  Pack sum[D][N];
  EQUIGEO_UNROLL
  for (int k = 0; k < D; ++k) {
    EQUIGEO_UNROLL
    for (int n = 0; n < N; ++n) {
      sum[k][n] = Memory<Pack, T>::load(out + k * out_step + n * kStep);
    }
  }
  for (int64_t u = 0; u < size.mul; ++u) {
    for (int64_t v = 0; v < size.mul2; ++v) {
      const T* coupling = couplings + v * size.v_step + u;
      EQUIGEO_UNROLL
      for (int n = 0; n < N; ++n) {
        const Pack w = Memory<Pack, T>::load(weight + n * kStep);
        EQUIGEO_UNROLL
        for (int k = 0; k < D; ++k) {
          sum[k][n] += coupling[k * size.k_step] * w;
        }
      }
      weight += row;
    }
  }
  EQUIGEO_UNROLL
  for (int k = 0; k < D; ++k) {
    EQUIGEO_UNROLL
    for (int n = 0; n < N; ++n) {
      Memory<Pack, T>::store(out + k * out_step + n * kStep, sum[k][n]);
    }
  }
}

// N packs of the D components of a gradient, kept in registers.
template <class Pack, int D, int N, class T>
struct ArrivingGradient {
  Pack pack[D][N];

  EQUIGEO_HOST_DEVICE ArrivingGradient(const T* grad, int64_t step) {
    EQUIGEO_UNROLL
    for (int k = 0; k < D; ++k) {
      EQUIGEO_UNROLL
      for (int n = 0; n < N; ++n) {
        pack[k][n] = Memory<Pack, T>::load(grad + k * step + n * kWidth<Pack, T>);
      }
    }
  }

  // slopes[k] = sum_w weight[w] grad_k[w], to be summed over lanes; `slope_step` apart.
  EQUIGEO_HOST_DEVICE void couplings(const T* weight, T* slopes, int64_t slope_step) const {
    Pack w[N];
    EQUIGEO_UNROLL
    for (int n = 0; n < N; ++n) {
      w[n] = Memory<Pack, T>::load(weight + n * kWidth<Pack, T>);
    }
    EQUIGEO_UNROLL
    for (int k = 0; k < D; ++k) {
      Pack sum = w[0] * pack[k][0];
      EQUIGEO_UNROLL
      for (int n = 1; n < N; ++n) {
        sum += w[n] * pack[k][n];
      }
      Memory<Pack, T>::store(slopes + k * slope_step, sum);
    }
  }

  // weights[w] = sum_k c_k grad_k[w]
  EQUIGEO_HOST_DEVICE void weights(const T* coupling, int64_t k_step, T* weights) const {
    EQUIGEO_UNROLL
    for (int n = 0; n < N; ++n) {
      Pack sum = coupling[0] * pack[0][n];
      EQUIGEO_UNROLL
      for (int k = 1; k < D; ++k) {
        sum += coupling[k * k_step] * pack[k][n];
      }
      Memory<Pack, T>::store(weights + n * kWidth<Pack, T>, sum);
    }
  }
};

}  // namespace
}  // namespace equigeo
