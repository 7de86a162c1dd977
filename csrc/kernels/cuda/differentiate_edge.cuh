// Gradients of the product of one edge for the channels of a lane.
#pragma once

#include "kernels/cuda/channels.cuh"
#include "kernels/cuda/edge_weights.cuh"
#include "kernels/cuda/staged_channels.cuh"
#include "kernels/cuda/sum_lanes.cuh"

namespace equigeo {
namespace {

// Rows of the gradient of a matrix that are made at once, and their numbers up to a power of two.
EQUIGEO_HOST_DEVICE constexpr int rows_at_once(int d1) {
  return d1 == 1 ? 8 : d1 <= 8 ? 16 / d1 : 1;
}
EQUIGEO_HOST_DEVICE constexpr int numbers_at_once(int d1) { return d1 == 1 ? 8 : 16; }

// What a lane holds of its channels. Tangents are those of the operands; where there are none, no
// registers are taken.
template <int D1, int N, bool Second, class T>
struct Lane {
  static constexpr int kTangents = Second ? D1 : 1;
  T x[D1][N];
  T x_tangent[kTangents][N];
  T grad_x[D1][N];  // over some edges
};

// Of one path and one edge: its staged matrix, and how far behind it lie that of the tangent of its
// second input, and what its gradient adds up to; zero where there is none.
template <class T>
struct EdgeMatrix {
  T* matrix;
  int tangent, gradient, rows;
};

template <int N, class T>
struct LaneWeights {
  T at[N], tangent[N];
};

// v_i, where the sum over channels of g_k v_i is the gradient of the matrix. Computed where it is
// needed: registers are short.
template <int D1, int N, bool Second, class T>
__device__ __forceinline__ T
weighted(const Lane<D1, N, Second, T>& lane, const LaneWeights<N, T>& weight, int i, int n) {
  if constexpr (Second) {
    return weight.at[n] * lane.x_tangent[i][n] + weight.tangent[n] * lane.x[i][n];
  } else {
    return weight.at[n] * lane.x[i][n];
  }
}

// Add some rows of the gradient of a matrix, over all channels of the warp.
template <int D1, int N, bool Second, int K, class T>
__device__ __forceinline__ void add_gradient(
    const T (&g)[K][N],
    const Lane<D1, N, Second, T>& lane,
    const LaneWeights<N, T>& weight,
    int first,
    int left,
    T* to) {
  constexpr int kNumbers = numbers_at_once(D1);
  T gradient[K][D1] = {}, numbers[kNumbers] = {};
#pragma unroll
  for (int n = 0; n < N; ++n) {
    T column[K];
#pragma unroll
    for (int k = 0; k < K; ++k) {
      column[k] = g[k][n];
    }
#pragma unroll
    for (int i = 0; i < D1; ++i) {
      add_to_column(column, weighted(lane, weight, i, n), i, gradient);
    }
  }
#pragma unroll
  for (int n = 0; n < K * D1; ++n) {
    numbers[n] = gradient[n / D1][n % D1];
  }
  sum_lanes<kNumbers>(numbers);
  const int k = static_cast<int>(threadIdx.x) / D1;
  if (k < K && k < left) {
    to[(first + k) * row_stride(D1) + threadIdx.x % D1] += numbers[0];
  }
}

// back_i = sum_k M_ki g_k, that of the tangent of the matrix, and the gradient of the matrix.
template <int D1, int N, bool Second, class S, class T>
__device__ __forceinline__ void transpose_rows(
    const MaybeStaged<N, S, T>& grad,
    const Channels& channels,
    const EdgeMatrix<T>& edge,
    const Lane<D1, N, Second, T>& lane,
    const LaneWeights<N, T>& weight,
    T (&back)[D1][N],
    T (&back_tangent)[Lane<D1, N, Second, T>::kTangents][N]) {
  constexpr int kRows = rows_at_once(D1);
#pragma unroll 1
  for (int first = 0; first < edge.rows; first += kRows) {
    T g[kRows][N];
    const int left = edge.rows - first;
    grad.load(channels, first, left, g);
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      if (k < left) {
        T row[row_stride(D1)];
        load_row<D1>(edge.matrix + (first + k) * row_stride(D1), row);
        add_transposed_row<T, D1, N, 1>(row, g[k], back);
        if constexpr (Second) {
          if (edge.tangent > 0) {
            load_row<D1>(edge.matrix + edge.tangent + (first + k) * row_stride(D1), row);
            add_transposed_row<T, D1, N, 1>(row, g[k], back_tangent);
          }
        }
      }
    }
    if (edge.gradient > 0) {
      add_gradient(g, lane, weight, first, left, edge.matrix + edge.gradient);
    }
  }
}

// One edge: grad_x += w back, and the gradient of the weights, sum_i x_i back_i; or how these
// change, grad_x += w back' + w' back and sum_i x'_i back_i + x_i back'_i.
template <int D1, int N, bool Second, class S, class T>
__device__ __forceinline__ void differentiate_edge(
    const MaybeStaged<N, S, T>& grad,
    const Channels& channels,
    const EdgeMatrix<T>& edge,
    const LaneWeights<N, T>& weight,
    Lane<D1, N, Second, T>& lane,
    T (&slope)[N]) {
  constexpr int kTangents = Lane<D1, N, Second, T>::kTangents;
  T back[D1][N] = {}, back_tangent[kTangents][N] = {};
  transpose_rows(grad, channels, edge, lane, weight, back, back_tangent);
#pragma unroll
  for (int n = 0; n < N; ++n) {
    slope[n] = 0;
#pragma unroll
    for (int i = 0; i < D1; ++i) {
      if constexpr (Second) {
        slope[n] += lane.x_tangent[i][n] * back[i][n] + lane.x[i][n] * back_tangent[i][n];
        lane.grad_x[i][n] += weight.at[n] * back_tangent[i][n] + weight.tangent[n] * back[i][n];
      } else {
        slope[n] += lane.x[i][n] * back[i][n];
        lane.grad_x[i][n] += weight.at[n] * back[i][n];
      }
    }
  }
}

}  // namespace
}  // namespace equigeo
