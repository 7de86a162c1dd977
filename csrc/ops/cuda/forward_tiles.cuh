// Products of edges, added up at the rows of the output.
//
// A block makes one row, or a slice of it; each of its warps makes tiles of it, one after another.
// A lane keeps its channels of a tile in registers over all paths and all edges.
#pragma once

#include "ops/cuda/put_rows.cuh"

namespace equigeo {
namespace {

template <class T>
struct ForwardPass {
  Plan<T> plan;
  const T* x;       // (sources, dim_x)
  const T* y;       // (edges, dim_y)
  const T* weight;  // (edges, dim_weight) or null
  T* out;           // (rows, dim_out)
  bool x_ir_mul;    // the layout of x, which may be another than that of the plan
};

constexpr int kForwardWarps = 4;  // of a block, at most
constexpr int kForwardChannels = 2;  // of a lane, at most

// What a warp of the forward pass keeps in shared memory: rows of matrices, then rows of a tile.
template <class T, int Batch>
struct alignas(16) ForwardMemory {
  static constexpr int kMatrices = Batch * kMostRows * row_stride(13);
  static constexpr int kPut = kPutNumbers<kMostRows, kForwardChannels>;
  T numbers[kMatrices > kPut ? kMatrices : kPut];
  T weights[Batch * kForwardChannels * kWarp];
  EdgeRows edges[Batch];
};

// Channels whose components a lane holds at once.
template <class T>
EQUIGEO_HOST_DEVICE constexpr int channels_at_once(int d1, int channels) {
  return d1 * sizeof(T) <= 40 ? channels : 1;
}

// sum_k += sum_i M_ki (w x_i) for one edge, with staged rows k of the matrix.
template <int D1, int R, int N, class T>
__device__ __forceinline__ void add_product(
    const T* x, const Channels& channels, const T (&weight)[N], const T* matrix, T (&sum)[R][N]) {
  constexpr int kAtOnce = channels_at_once<T>(D1, N);
#pragma unroll
  for (int n = 0; n < N; n += kAtOnce) {
    T values[D1][kAtOnce];
    load_channels(x, channels, n, 0, D1, values);
#pragma unroll
    for (int i = 0; i < D1; ++i) {
#pragma unroll
      for (int m = 0; m < kAtOnce; ++m) {
        values[i][m] *= weight[n + m];
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

// One path, for one copy of the second input, of a tile and a batch of edges.
template <int R, int N, int Batch, class T>
__device__ __forceinline__ void add_path(
    const ForwardPass<T>& pass,
    const PlannedPath& path,
    int copy,
    const Tile& tile,
    int count,
    ForwardMemory<T, Batch>& memory,
    T (&sum)[R][N]) {
  const Plan<T>& plan = pass.plan;
  const Channels channels = channels_of(pass.x_ir_mul, path.mul, path.d1, tile.channel);
  fetch_weights<N>(
      pass.weight, plan.dim_weight, path, copy, channels, memory.edges, count, memory.weights);
  stage_matrices<(Batch < 4 ? Batch : 4)>(
      plan, path, copy, {tile.row, R}, pass.y, memory.edges, count, memory.numbers);
  wait_for_weights();
  for_components(path.d1, [&](auto d1) {
    constexpr int D1 = decltype(d1)::value;
#pragma unroll 1
    for (int b = 0; b < count; ++b) {
      const T* x = pass.x + memory.edges[b].other * plan.dim_x + path.x;
      T weight[N];
      load_weights(memory.weights, b, weight);
      add_product<D1>(x, channels, weight, memory.numbers + b * R * row_stride(D1), sum);
    }
  });
}

template <int R, int N, class T, class Edges, class Memory>
__device__ __forceinline__ void sum_tile(
    const ForwardPass<T>& pass,
    const Edges& edges,
    int64_t row,
    const Tile& tile,
    Memory& memory) {
  T sum[R][N] = {};
  const Segment segment = tile.first < tile.last ? edges.of(row) : Segment{0, 0};
#pragma unroll 1
  for (int64_t k = segment.begin; k < segment.end; k += Edges::kBatch) {
    const int count = load_batch(edges, k, segment.end, memory.edges);
#pragma unroll 1
    for (int p = tile.first; p < tile.last; ++p) {
      const PlannedPath& path = pass.plan.path[p];
#pragma unroll 1
      for (int copy = 0; copy < path.mul2; ++copy) {
        add_path(pass, path, copy, tile, count, memory, sum);
      }
    }
  }
  T* to = pass.out + row * pass.plan.dim_out + tile.begin;
  put_rows(tile, pass.plan.ir_mul, sum, false, to, memory.numbers);
}

template <int R, class T, class Edges, class Memory>
__device__ __forceinline__ void sum_rows_of_tile(
    const ForwardPass<T>& pass,
    const Edges& edges,
    int64_t row,
    const Tile& tile,
    Memory& memory) {
  if (tile.mul - tile.channel > kWarp) {
    sum_tile<R, kForwardChannels>(pass, edges, row, tile, memory);
  } else {
    sum_tile<R, 1>(pass, edges, row, tile, memory);
  }
}

template <class T, class Edges>
__global__ void __launch_bounds__(kForwardWarps* kWarp, sizeof(T) == 4 ? 4 : 3)
    sum_tiles(ForwardPass<T> pass, Edges edges) {
  __shared__ ForwardMemory<T, Edges::kBatch> memories[kForwardWarps];
  ForwardMemory<T, Edges::kBatch>& memory = memories[threadIdx.y];
  const int tiles = pass.plan.totals->tiles;
#pragma unroll 1
  for (int64_t row = blockIdx.x; row < edges.rows; row += gridDim.x) {
#pragma unroll 1
    for (int t = blockIdx.y * blockDim.y + threadIdx.y; t < tiles; t += gridDim.y * blockDim.y) {
      const Tile& tile = pass.plan.tile[t];
      if (tile.rows == 1) {
        sum_rows_of_tile<1>(pass, edges, row, tile, memory);
      } else if (tile.rows <= 3) {
        sum_rows_of_tile<3>(pass, edges, row, tile, memory);
      } else if (tile.rows <= 5) {
        sum_rows_of_tile<5>(pass, edges, row, tile, memory);
      } else {
        sum_rows_of_tile<kMostRows>(pass, edges, row, tile, memory);
      }
    }
  }
}

// Blocks of as many warps as there may be tiles; a row is sliced where rows are too few to fill a
// GPU.
template <class T, class Edges>
const char* launch_forward(const ForwardPass<T>& pass, const Edges& edges, void* stream) {
  constexpr int64_t kEnough = 4096;  // warps for every multiprocessor of a large GPU
  if (edges.rows == 0 || pass.plan.dim_out == 0) {
    return nullptr;
  }
  const int64_t paths = pass.plan.count < 1 ? 1 : pass.plan.count;
  const int64_t warps = paths < kForwardWarps ? paths : kForwardWarps;
  int64_t slices = kEnough / (edges.rows * warps);
  slices = slices < paths / warps ? slices : paths / warps;
  const int64_t rows = edges.rows < kMostBlocks ? edges.rows : kMostBlocks;
  const dim3 grid(static_cast<unsigned>(rows), static_cast<unsigned>(slices < 1 ? 1 : slices));
  const dim3 block(kWarp, static_cast<unsigned>(warps));
  sum_tiles<<<grid, block, 0, static_cast<cudaStream_t>(stream)>>>(pass, edges);
  return launch_error();
}

}  // namespace
}  // namespace equigeo
