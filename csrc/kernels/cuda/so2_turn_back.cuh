// From the frames of edges back onto rows of features, which are sums over edges.
#pragma once

#include "kernels/cuda/so2_turn.cuh"

namespace equigeo {
namespace {

template <class T>
struct TurnBack {
  const SO2Tables<T>* tables;
  SO2Plan plan;
  EdgeChunk<T> edges;
  int tile, stride;
  const SO2Term* term;
  int64_t terms, dim;
  Orders<T> from;
  const T* bias;    // added to order 0, or null
  const T* factor;  // of each edge of the chunk, or null
  T* rows;
};

// K components of one copy from the k-th on, of edges that come sorted by row: a row is written
// when the next one begins.
template <int K, class T>
__device__ __forceinline__ void add_components(
    const TurnBack<T>& op,
    const SO2Term& term,
    const TileMatrices<T>& matrices,
    int64_t first,
    int count,
    int k,
    int64_t copy) {
  const int width = static_cast<int>(2 * term.l + 1);
  const int64_t most = term.l < op.plan.mmax ? term.l : op.plan.mmax;
  T sum[K] = {};
  int64_t row = op.edges.row[first];
  const auto write = [&] {
    T* to = op.rows + row * op.dim + term.offset + copy;
#pragma unroll
    for (int i = 0; i < K; ++i) {
      if (k + i < width) {
        to[(k + i) * term.mul] += sum[i];
      }
      sum[i] = 0;
    }
  };
#pragma unroll 1
  for (int edge = 0; edge < count; ++edge) {
    const int64_t e = first + edge;
    if (op.edges.row[e] != row) {
      write();
      row = op.edges.row[e];
    }
    if (op.edges.inverse[e] == 0) {
      continue;
    }
    const T factor = op.factor == nullptr ? T(1) : op.factor[e];
    const T* matrix = matrices.of(edge, term.l) + (term.l - most) * width;
#pragma unroll 1
    for (int64_t m = -most; m <= most; ++m, matrix += width) {
      const Component<T> from = component_of(op.from, term, m, e);
      T value = from.sign * from.at[copy];
      if (m == 0 && op.bias != nullptr) {
        value += op.bias[term.column[0] + copy];
      }
      value *= factor;
#pragma unroll
      for (int i = 0; i < K; ++i) {
        sum[i] += matrix[k + i < width ? k + i : k] * value;
      }
    }
  }
  write();
}

// Components of a term, K at a time, and 32 copies: in turn one of the warps of a block.
template <int K, class T>
__device__ __forceinline__ void add_term(
    const TurnBack<T>& op,
    const SO2Term& term,
    const TileMatrices<T>& matrices,
    int64_t first,
    int count,
    int& turn) {
  const int width = static_cast<int>(2 * term.l + 1);
#pragma unroll 1
  for (int k = 0; k < width; k += K) {
#pragma unroll 1
    for (int64_t begin = 0; begin < term.mul; begin += kWarp, ++turn) {
      const int64_t copy = begin + threadIdx.x % kWarp;
      if (turn % (kThreads / kWarp) == static_cast<int>(threadIdx.x) / kWarp && copy < term.mul) {
        add_components<K>(op, term, matrices, first, count, k, copy);
      }
    }
  }
}

// Whether the edge at e adds to another row than the one before it in the chunk.
template <class T>
__device__ inline bool begins_row(const EdgeChunk<T>& edges, int64_t e) {
  return e == 0 || e == edges.count || edges.row[e] != edges.row[e - 1];
}

// Blocks of threads take all edges of those rows that begin among the edges of a tile, so that
// nobody else adds to these.
template <class T>
__global__ void __launch_bounds__(kThreads, kTurnResident)
    turn_rows_back(const __grid_constant__ TurnBack<T> op) {
  const TileMatrices<T> matrices{dynamic_shared<T>(), op.stride};
  const int64_t step = static_cast<int64_t>(gridDim.x) * op.tile;
#pragma unroll 1
  for (int64_t tile = blockIdx.x * static_cast<int64_t>(op.tile); tile < op.edges.count;
       tile += step) {
    const int64_t last = tile + op.tile < op.edges.count ? tile + op.tile : op.edges.count;
    int64_t first = tile, end = last;
    while (first < last && !begins_row(op.edges, first)) {
      ++first;
    }
    while (first < last && !begins_row(op.edges, end)) {
      ++end;
    }
#pragma unroll 1
    for (; first < end; first += op.tile) {
      const int64_t left = end - first;
      const int count = static_cast<int>(left < op.tile ? left : op.tile);
      make_matrices(*op.tables, op.plan.lmax, op.plan.mmax, op.edges, first, count, matrices);
      int turn = 0;
#pragma unroll 1
      for (int64_t n = 0; n < op.terms; ++n) {
        const SO2Term& term = op.term[n];
        if (term.l == 0) {
          add_term<1>(op, term, matrices, first, count, turn);
        } else if (term.l == 1) {
          add_term<3>(op, term, matrices, first, count, turn);
        } else {
          add_term<5>(op, term, matrices, first, count, turn);
        }
      }
    }
  }
}

template <class T>
void turn_back(TurnBack<T> op, void* stream) {
  op.tile = edges_at_once<T>(op.plan.lmax);
  op.stride = matrix_stride(op.plan.lmax);
  const int64_t tiles = (op.edges.count + op.tile - 1) / op.tile;
  const int64_t bytes = op.tile * op.stride * static_cast<int64_t>(sizeof(T));
  launch_kernel(turn_rows_back<T>, grid_of(tiles), kThreads, bytes, stream, op);
}

}  // namespace
}  // namespace equigeo
