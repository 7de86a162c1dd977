// Products of the edges of a batch, by a warp that adds them up for a tile of the output.
#pragma once

#include <type_traits>

#include "kernels/cuda/edge_weights.cuh"
#include "kernels/cuda/staged_channels.cuh"
#include "kernels/cuda/staged_matrices.cuh"
#include "kernels/cuda/sum_products.h"

namespace equigeo {
namespace {

constexpr int kChannels = 2;  // of a lane, at most

// What a warp keeps in shared memory: hidden numbers, or functions of splines, of edges, then their
// matrices; their channels; their weights; and rows of a tile on their way. With tangents of the
// operands there are two of all.
template <class S>
struct alignas(16) WarpMemory {
  using T = Compute<S>;
  static constexpr int kMatrices = 448, kStaged = 1280, kWeights = kBatch * kChannels * kWarp;
  static_assert(kMatrices >= kMostRows * row_stride(13) && kStaged >= 2 * kWarp * 13);
  T matrices[kMatrices];
  T rows[kPutNumbers<kMostRows, kChannels>];
  T weights[kWeights];
  S channels[kStaged];
  EdgeRows edges[kBatch];
};

// Edges that a warp takes together: of a batch, and as many of these as there is room for.
template <bool Second>
constexpr int kEdges = Second ? kBatch / 2 : kBatch;

template <bool Second, int N, class S>
EQUIGEO_HOST_DEVICE constexpr int edges_at_once(int d1) {
  constexpr int kSets = Second ? 2 : 1;
  return WarpMemory<S>::kStaged / (kSets * N * kWarp * d1);
}

// Whether there is room for the matrices wherever there is for the channels.
template <class S>
constexpr bool room_for_matrices() {
  for (int d1 = 1; d1 <= 13; ++d1) {
    const int fit = edges_at_once<false, 1, S>(d1), edges = fit < kBatch ? fit : kBatch;
    if (edges * kMostRows * row_stride(d1) > WarpMemory<S>::kMatrices) {
      return false;
    }
  }
  return true;
}
static_assert(room_for_matrices<float>() && room_for_matrices<double>());

// Channels of a lane whose components it holds at once.
template <class T>
EQUIGEO_HOST_DEVICE constexpr int channels_at_once(int d1, int channels) {
  return d1 * sizeof(T) <= 40 ? channels : 1;
}

// Staged channels of one edge and its weights. Null is zero.
template <int N, class S, class T>
struct Weighted {
  const S* x;
  const T* weights;

  // w x_i of channels n, n + 1, ...
  template <int D1, int K>
  __device__ __forceinline__ void load(
      const StagedLayout<N>& layout, const Channels& channels, int n, T (&values)[D1][K]) const {
    load_staged(x, layout, channels, n, 0, D1, values);
#pragma unroll
    for (int m = 0; m < K; ++m) {
      const T weight = weights[(n + m) * kWarp + threadIdx.x];
#pragma unroll
      for (int i = 0; i < D1; ++i) {
        values[i][m] *= weight;
      }
    }
  }
};

// sum_k += sum_i M_ki v_i for the staged rows k of a matrix and v = w x, plus w' x' where it is not
// null.
template <int D1, int R, int N, class S, class T>
__device__ __forceinline__ void add_product(
    const T* matrix,
    const Weighted<N, S, T>& first,
    const Weighted<N, S, T>& second,
    const StagedLayout<N>& layout,
    const Channels& channels,
    T (&sum)[R][N]) {
  constexpr int kAtOnce = channels_at_once<T>(D1, N);
#pragma unroll
  for (int n = 0; n < N; n += kAtOnce) {
    T values[D1][kAtOnce];
    first.load(layout, channels, n, values);
    if (second.x != nullptr) {
      T others[D1][kAtOnce];
      second.load(layout, channels, n, others);
#pragma unroll
      for (int i = 0; i < D1; ++i) {
#pragma unroll
        for (int m = 0; m < kAtOnce; ++m) {
          values[i][m] += others[i][m];
        }
      }
    }
#pragma unroll
    for (int k = 0; k < R; ++k) {
      T row[row_stride(D1)], part[kAtOnce];
      load_row<D1>(matrix + k * row_stride(D1), row);
#pragma unroll
      for (int m = 0; m < kAtOnce; ++m) {
        part[m] = sum[k][n + m];
      }
      add_row<T, D1, kAtOnce, 1>(row, values, part);
#pragma unroll
      for (int m = 0; m < kAtOnce; ++m) {
        sum[k][n + m] = part[m];
      }
    }
  }
}

// Weights of `count` edges; those of tangents behind those of half a batch.
template <int N, bool Second, class S>
__device__ __forceinline__ void bring_weights(
    const SumProducts<S>& op,
    const PlannedPath& path,
    int copy,
    const Channels& channels,
    int count,
    WarpMemory<S>& memory) {
  using T = Compute<S>;
  if constexpr (std::is_same_v<S, T> && !Second) {  // in bfloat16 all are given
    constexpr int kRoom = WarpMemory<S>::kMatrices / kBatch;
    static_assert(kRoom >= kMostFunctions);
    if (op.radial.hidden != nullptr && path.weight >= 0) {
      compute_weights<N, kRoom>(
          op.radial, path, copy, channels, memory.edges, count, memory.matrices, memory.weights);
      return;
    }
    if (op.spline.position != nullptr && path.weight >= 0) {
      compute_splines<N>(
          op.spline, path, copy, channels, memory.edges, count, memory.matrices, memory.weights);
      return;
    }
  }
  fetch_weights<N>(
      op.weight, op.weight_stride, path, copy, channels, memory.edges, count, memory.weights);
  if (Second && op.tangents.weight != nullptr && path.weight >= 0) {
    T* to = memory.weights + kEdges<true> * N * kWarp;
    const int64_t dim = op.plan.dim_weight;
    fetch_weights<N>(op.tangents.weight, dim, path, copy, channels, memory.edges, count, to);
  }
}

// Channels and matrices of some edges; those of tangents behind them. Channels come from afar: they
// are on their way while matrices are made.
template <bool Second, int R, int N, class S>
__device__ __forceinline__ void stage_edges(
    const SumProducts<S>& op,
    const PlannedPath& path,
    int copy,
    const Tile& tile,
    const EdgeRows* edges,
    int count,
    WarpMemory<S>& memory) {
  const int staged = N * kWarp * path.d1, size = R * row_stride(path.d1);
  const auto bring = [&](const S* x, S* to) {
#pragma unroll 1
    for (int b = 0; b < count; ++b) {
      const S* segment = x + edges[b].other * op.plan.dim_x + path.x;
      stage_channels<N>(segment, op.x_ir_mul, path.mul, path.d1, tile.channel, to + b * staged);
    }
  };
  __syncwarp();  // what was there has been read
  bring(op.x, memory.channels);
  if (Second && op.tangents.x != nullptr) {
    bring(op.tangents.x, memory.channels + count * staged);
  }
  const RowRange rows{tile.row, R};
  stage_matrices(op.plan, path, copy, rows, size, op.y, edges, count, memory.matrices);
  if (Second && op.tangents.y != nullptr) {
    stage_matrices(
        op.plan, path, copy, rows, size, op.tangents.y, edges, count,
        memory.matrices + count * size);
  }
  wait_for_copies();
  __syncwarp();
}

// One path, for one copy of the second input, of a tile and a batch of edges; visit(b) follows
// every edge.
template <bool Second, int R, int N, class S, class T, class Visit>
__device__ __forceinline__ void add_path(
    const SumProducts<S>& op,
    const PlannedPath& path,
    int copy,
    const Tile& tile,
    int count,
    WarpMemory<S>& memory,
    T (&sum)[R][N],
    const Visit& visit) {
  using Operand = Weighted<N, S, T>;
  const Channels channels = channels_of(op.x_ir_mul, path.mul, path.d1, tile.channel);
  const StagedLayout<N> layout(op.x_ir_mul, path.d1);
  const int staged = N * kWarp * path.d1, size = R * row_stride(path.d1);
  const int most = edges_at_once<Second, N, S>(path.d1);
  bring_weights<N, Second>(op, path, copy, channels, count, memory);
#pragma unroll 1
  for (int begin = 0; begin < count; begin += most) {
    const int left = count - begin, together = left < most ? left : most;
    stage_edges<Second, R, N>(op, path, copy, tile, memory.edges + begin, together, memory);
#pragma unroll 1
    for (int b = 0; b < together; ++b) {
      const S* x = memory.channels + b * staged;
      const T* matrix = memory.matrices + b * size;
      const T* weights = memory.weights + (begin + b) * N * kWarp;
      if constexpr (Second) {
        // M (w x' + w' x), then M' (w x).
        const bool moves = op.tangents.x != nullptr, turns = op.tangents.y != nullptr;
        const bool weighs = op.tangents.weight != nullptr && path.weight >= 0;
        const Operand moved{x + together * staged, weights};
        const Operand reweighted{weighs ? x : nullptr, weights + kEdges<true> * N * kWarp};
        const Operand none{nullptr, nullptr};
#pragma unroll 1
        for (int turn = moves || weighs ? 0 : 1; turn < (turns ? 2 : 1); ++turn) {
          const Operand first = turn == 1 ? Operand{x, weights} : moves ? moved : reweighted;
          const Operand second = turn == 0 && moves ? reweighted : none;
          const T* of_turn = matrix + turn * together * size;
          for_components(path.d1, [&](auto d1) {
            add_product<decltype(d1)::value>(of_turn, first, second, layout, channels, sum);
          });
        }
      } else {
        for_components(path.d1, [&](auto d1) {
          const Operand none{nullptr, nullptr};
          add_product<decltype(d1)::value>(
              matrix, Operand{x, weights}, none, layout, channels, sum);
        });
      }
      visit(begin + b);
    }
  }
}

}  // namespace
}  // namespace equigeo
