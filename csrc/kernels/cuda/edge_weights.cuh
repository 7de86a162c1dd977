// Weights of the channels of a lane for a batch of edges, in shared memory, where each lane finds
// its own again.
#pragma once

#include "kernels/cuda/channels.cuh"
#include "kernels/cuda/staged_matrices.cuh"
#include "math/spline.h"

namespace equigeo {
namespace {

// The weights of a path for a copy of the second input, or null where it has none, as no path has
// where there are no weights at all.
template <class S>
__device__ S* weights_of(S* weights, int64_t row, const PlannedPath& path, int copy) {
  return path.weight < 0 ? nullptr : weights + row + path.weight + copy;
}

// Ask for the weights of one row, or take what stands for them where there are none.
template <int N, class S, class T>
__device__ __forceinline__ void bring_lane_weights(
    const S* weights,
    int64_t row,
    const PlannedPath& path,
    int copy,
    const Channels& channels,
    T missing,
    T* to) {
  const S* from = weights == nullptr ? nullptr : weights_of(weights, row, path, copy);
#pragma unroll
  for (int n = 0; n < N; ++n) {
    T* at = to + n * kWarp + threadIdx.x;
    if (from != nullptr && channels.has(n)) {
      copy_later(at, from + channels.at(n) * path.mul2);
    } else {
      *at = missing;
    }
  }
}

// From memory, or ones. They come from afar, and only once: ask for them early and wait late. Each
// lane writes and reads its own.
template <int N, class S, class T>
__device__ __forceinline__ void fetch_weights(
    const S* weights,
    int64_t dim,
    const PlannedPath& path,
    int copy,
    const Channels& channels,
    const EdgeRows* edges,
    int count,
    T* to) {
#pragma unroll 1
  for (int b = 0; b < count; ++b) {
    const int64_t row = edges[b].own * dim;
    bring_lane_weights<N>(weights, row, path, copy, channels, T(1), to + b * N * kWarp);
  }
}

// hidden @ matrix for a path that has weights. Hidden numbers of all edges lie side by side in
// `staged`, which has room for Room of each edge, so that a number of the matrix is read once.
template <int N, int Room, class T>
__device__ __forceinline__ void compute_weights(
    const RadialWeights<T>& radial,
    const PlannedPath& path,
    int copy,
    const Channels& channels,
    const EdgeRows* edges,
    int count,
    T* staged,
    T* to) {
  T sum[kBatch][N] = {};
  const T* from = radial.matrix + path.weight + copy + channels.first * path.mul2;
#pragma unroll 1
  for (int64_t begin = 0; begin < radial.num_hidden; begin += Room) {
    const int left =
        static_cast<int>(radial.num_hidden - begin < Room ? radial.num_hidden - begin : Room);
    __syncwarp();  // what was there has been read
#pragma unroll 1
    for (int n = threadIdx.x; n < left * kBatch; n += kWarp) {
      const int b = n % kBatch;
      const int64_t hidden = begin + n / kBatch;
      staged[n] =
          b < count ? load(radial.hidden + edges[b].own * radial.num_hidden + hidden) : T(0);
    }
    __syncwarp();
#pragma unroll 1
    for (int h = 0; h < left; ++h, from += radial.stride) {
      T hidden[kBatch];
      load_row<kBatch>(staged + h * kBatch, hidden);
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const T factor = channels.has(n) ? load(from + n * kWarp * path.mul2) : T(0);
#pragma unroll
        for (int b = 0; b < kBatch; ++b) {
          sum[b][n] += hidden[b] * factor;
        }
      }
    }
  }
#pragma unroll
  for (int b = 0; b < kBatch; ++b) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
      to[(b * N + n) * kWarp + threadIdx.x] = sum[b][n];
    }
  }
}

// Functions of splines at the positions of edges, and, unless `slopes` is null, their derivatives:
// those of all edges lie side by side. Each of some threads makes a part.
template <class T>
__device__ __forceinline__ void stage_functions(
    const SplineWeights<T>& spline,
    const EdgeRows* edges,
    int count,
    int thread,
    int threads,
    T* values,
    T* slopes) {
#pragma unroll 1
  for (int n = thread; n < spline.functions * kBatch; n += threads) {
    const int b = n % kBatch;
    if (b < count) {
      T value, slope;
      evaluate_functions(spline, n / kBatch, load(spline.position + edges[b].own), value, slope);
      values[n] = value;
      if (slopes != nullptr) {
        slopes[n] = slope;
      }
    }
  }
}

// Weights of one edge that are splines, from its staged functions, for a path that has weights;
// with Slopes also their derivatives. An edge with stray coefficients is stopped with a trap.
template <int N, bool Slopes, class T>
__device__ __forceinline__ void combine_functions(
    const SplineWeights<T>& spline,
    const PlannedPath& path,
    int copy,
    const Channels& channels,
    int64_t edge,
    const T* values,
    const T* slopes,
    T* to,
    T* to_slopes) {
  const Index first{spline.first, spline.rows - spline.functions + 1, nullptr};
  const int64_t column = path.weight + copy + channels.first * path.mul2;
  const T* start = spline.matrix + first[edge] * spline.stride + column;
  const T* from = start + spline.rows * spline.stride;
  T sum[N], sum_slopes[N] = {};
#pragma unroll
  for (int n = 0; n < N; ++n) {
    sum[n] = channels.has(n) ? load(start + n * kWarp * path.mul2) : T(0);
  }
#pragma unroll 4
  for (int f = 0; f < spline.functions; ++f, from += spline.stride) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const T factor = channels.has(n) ? load(from + n * kWarp * path.mul2) : T(0);
      sum[n] += values[f * kBatch] * factor;
      if constexpr (Slopes) {
        sum_slopes[n] += slopes[f * kBatch] * factor;
      }
    }
  }
#pragma unroll
  for (int n = 0; n < N; ++n) {
    to[n * kWarp + threadIdx.x] = sum[n];
    if constexpr (Slopes) {
      to_slopes[n * kWarp + threadIdx.x] = sum_slopes[n];
    }
  }
}

// The same of a batch of edges, without derivatives.
template <int N, class T>
__device__ __forceinline__ void compute_splines(
    const SplineWeights<T>& spline,
    const PlannedPath& path,
    int copy,
    const Channels& channels,
    const EdgeRows* edges,
    int count,
    T* staged,
    T* to) {
  __syncwarp();  // what was there has been read
  stage_functions<T>(spline, edges, count, threadIdx.x, kWarp, staged, nullptr);
  __syncwarp();
#pragma unroll 1
  for (int b = 0; b < count; ++b) {
    combine_functions<N, false, T>(
        spline, path, copy, channels, edges[b].own, staged + b, nullptr, to + b * N * kWarp,
        nullptr);
  }
}

}  // namespace
}  // namespace equigeo
