// Rows of features into the frames of edges and back. A block of threads makes the matrices of a
// few edges in shared memory, where they stay.
#pragma once

#include "kernels/cuda/so2_edges.cuh"
#include "kernels/cuda/stored.cuh"

namespace equigeo {
namespace {

constexpr int kMostTurned = 8;  // edges of a block at once
constexpr int64_t kTurnMemory = 48 << 10;
// Blocks that a multiprocessor must have registers for: none spills.
constexpr int kTurnResident = 3;

// Matrices of all degrees of some edges, one edge after another.
template <class T>
struct TileMatrices {
  T* numbers;
  int stride;

  __device__ T* of(int edge, int64_t l) const { return numbers + edge * stride + entries_below(l); }
};

// From those of one edge to the next: odd, so that lanes with an edge each are in banks of their
// own.
inline int matrix_stride(int64_t lmax) { return static_cast<int>(entries_below(lmax + 1)) | 1; }

template <class T>
int edges_at_once(int64_t lmax) {
  const int64_t fit = kTurnMemory / (matrix_stride(lmax) * static_cast<int64_t>(sizeof(T)));
  return static_cast<int>(fit < kMostTurned ? fit : kMostTurned);
}

// Of edges [first, first + count) of a chunk, as far as rows |m| <= top need them. For all threads
// of a block.
template <class T>
__device__ __forceinline__ void make_matrices(
    const SO2Tables<T>& tables,
    int64_t lmax,
    int64_t top,
    const EdgeChunk<T>& edges,
    int64_t first,
    int count,
    const TileMatrices<T>& matrices) {
  __syncthreads();  // what was there has been read
  if (static_cast<int>(threadIdx.x) < count) {
    const T* r = edges.vectors + 3 * edges.own[first + threadIdx.x];
    T* to = matrices.of(threadIdx.x, 0);
    double frame[9];
    edge_frame(r[0], r[1], r[2], frame);
    to[0] = 1;
#pragma unroll
    for (int n = 0; n < 9; ++n) {
      if (lmax > 0) {
        to[1 + n] = static_cast<T>(frame[n]);
      }
    }
  }
  __syncthreads();
#pragma unroll 1
  for (int64_t l = 2; l <= lmax; ++l) {
    const int most = static_cast<int>(last_row(l, lmax, top));
#pragma unroll 1
    for (int n = threadIdx.x; n < (2 * most + 1) * count; n += blockDim.x) {
      const int e = n % count;
      const int64_t row = l + n / count - most;
      turned_row<T>(
          tables.recurrence.row[l][row], tables.recurrence.column[l], l, matrices.of(e, 1),
          matrices.of(e, l - 1), matrices.of(e, l) + row * (2 * l + 1));
    }
    __syncthreads();
  }
}

// Factors of each edge, or none: rows of all edges where there is a list, else of the chunk.
template <class T>
struct Factors {
  const T* at;
  int64_t stride;
  const int64_t* list;

  __device__ const T* row(int64_t e) const { return at + (list == nullptr ? e : list[e]) * stride; }
};

// Rows that are turned: row at[e] for edge e of a chunk.
template <class T>
struct TurnedRows {
  const T* rows;
  const int64_t* at;
  const SO2Term* term;
  int64_t terms, dim;
  Orders<T> to;
  bool kept;            // as they are turned
  Orders<T> modulated;  // times factors, in orders up to mmax, where there are any
};

template <class T>
struct Turn {
  const SO2Tables<T>* tables;
  SO2Plan plan;
  EdgeChunk<T> edges;
  int tile, stride;
  int64_t top;
  Factors<T> factors;
  int sides;
  TurnedRows<T> side[2];
};

// R components of one copy, from component m on.
template <int R, class T>
__device__ __forceinline__ void turn_components(
    const Turn<T>& op,
    const TurnedRows<T>& side,
    const SO2Term& term,
    const T* matrix,
    int64_t m,
    const T* x,
    int64_t e,
    int64_t copy) {
  const int width = static_cast<int>(2 * term.l + 1);
  T sum[R] = {};
#pragma unroll 1
  for (int k = 0; k < width; ++k) {
    const T value = load(x + k * term.mul);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      sum[r] += matrix[(term.l + m + r) * width + k] * value;
    }
  }
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int64_t order = m + r < 0 ? -(m + r) : m + r;
    if (side.kept) {
      const Component<T> to = component_of(side.to, term, m + r, e);
      to.at[copy] = to.sign * sum[r];
    }
    if (op.factors.at != nullptr && side.modulated.tile > 0 && order <= op.plan.mmax) {
      const Component<T> to = component_of(side.modulated, term, m + r, e);
      to.at[copy] =
          to.sign * sum[r] * load(op.factors.row(e) + scale_of(op.plan, term, order) + copy);
    }
  }
}

// All copies of a term of one edge, `step` copies to the next one of a thread.
template <class T>
__device__ __forceinline__ void turn_term(
    const Turn<T>& op,
    const TurnedRows<T>& side,
    const SO2Term& term,
    const T* matrix,
    int64_t e,
    int64_t first,
    int step) {
  const int64_t most = term.l < op.top ? term.l : op.top;
  const T* x = side.rows + side.at[e] * side.dim + term.offset;
#pragma unroll 1
  for (int64_t copy = first; copy < term.mul; copy += step) {
    int64_t m = -most;
#pragma unroll 1
    for (; m + 4 <= most; m += 5) {
      turn_components<5>(op, side, term, matrix, m, x + copy, e, copy);
    }
#pragma unroll 1
    for (; m + 2 <= most; m += 3) {
      turn_components<3>(op, side, term, matrix, m, x + copy, e, copy);
    }
#pragma unroll 1
    for (; m <= most; ++m) {
      turn_components<1>(op, side, term, matrix, m, x + copy, e, copy);
    }
  }
}

// Blocks of threads take tiles of the edges of a chunk, each of which has some warps.
template <class T>
__global__ void __launch_bounds__(kThreads, kTurnResident)
    turn_rows(const __grid_constant__ Turn<T> op) {
  const TileMatrices<T> matrices{dynamic_shared<T>(), op.stride};
  const int64_t step = static_cast<int64_t>(gridDim.x) * op.tile;
#pragma unroll 1
  for (int64_t first = blockIdx.x * static_cast<int64_t>(op.tile); first < op.edges.count;
       first += step) {
    const int64_t left = op.edges.count - first;
    const int count = static_cast<int>(left < op.tile ? left : op.tile);
    make_matrices(*op.tables, op.plan.lmax, op.top, op.edges, first, count, matrices);
    const int together = kThreads / kWarp / op.tile * kWarp;  // threads of an edge
    const int edge = threadIdx.x / together;
#pragma unroll 1
    for (int s = 0; s < op.sides && edge < count; ++s) {
#pragma unroll 1
      for (int64_t n = 0; n < op.side[s].terms; ++n) {
        const SO2Term& term = op.side[s].term[n];
        turn_term(
            op, op.side[s], term, matrices.of(edge, term.l), first + edge, threadIdx.x % together,
            together);
      }
    }
  }
}

template <class T>
void turn(Turn<T> op, void* stream) {
  op.tile = edges_at_once<T>(op.plan.lmax);
  op.stride = matrix_stride(op.plan.lmax);
  const int64_t tiles = (op.edges.count + op.tile - 1) / op.tile;
  const int64_t bytes = op.tile * op.stride * static_cast<int64_t>(sizeof(T));
  launch_kernel(turn_rows<T>, grid_of(tiles), kThreads, bytes, stream, op);
}

}  // namespace
}  // namespace equigeo
