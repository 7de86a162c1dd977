// The three gradients of products of edges, in one pass over the edges of each row of the first
// input.
//
// A block takes the edges of one row, a batch at a time; its warps take tiles of that row. What
// belongs to an edge meets all of them: gradients of weights are written by the warp that has the
// channels, gradients of the second input add up in each warp and then over the warps, in order.
#pragma once

#include "ops/cuda/put_rows.cuh"
#include "ops/cuda/sum_lanes.cuh"

namespace equigeo {
namespace {

template <class T>
struct BackwardPass {
  Plan<T> plan;
  const T* grad;    // (targets, dim_out)
  const T* x;       // (rows, dim_x)
  const T* y;       // (edges, dim_y)
  const T* weight;  // (edges, dim_weight) or null
  T* grad_x;        // (rows, dim_x)
  T* grad_y;        // (edges, dim_y)
  T* grad_weight;   // (edges, dim_weight) or null
  bool in_ir_mul;   // the layout of grad and x, which may be another than that of the plan
  int batch;        // edges that are taken together, as far as shared memory allows
};

constexpr int kBackwardWarps = 4;  // of a block, at most
constexpr int kBackwardChannels = 2;  // of a lane, at most
constexpr int kMatrices = 512;     // numbers of staged matrices of a warp

// What a warp of the backward pass keeps in shared memory: matrices, then their gradients in the
// same place, then rows of a tile.
template <class T, int Batch>
struct alignas(16) BackwardMemory {
  T numbers[kMatrices];
  T weights[Batch * kBackwardChannels * kWarp];
  EdgeRows edges[Batch];
};

// Rows of the gradient of a matrix that are made at once, and how many numbers those are, up to a
// power of two: what is a sum over lanes is spread over them.
EQUIGEO_HOST_DEVICE constexpr int gradient_rows(int d1) { return d1 == 1 ? 8 : d1 < 16 / 2 ? 16 / d1 : 1; }
EQUIGEO_HOST_DEVICE constexpr int gradient_numbers(int d1) { return d1 == 1 ? 8 : 16; }

// How many edges, and of how many rows, matrices are staged together.
struct Staging {
  int edges, rows;
};

__device__ inline Staging staging_of(const PlannedPath& path, int count) {
  const int stride = row_stride(path.d1);
  if (path.d3 * stride > kMatrices) {
    return {1, kMatrices / stride};
  }
  const int fit = kMatrices / (path.d3 * stride);
  return {fit < count ? fit : count, path.d3};
}

// What a lane holds of its channels.
template <int D1, int N, class T>
struct LaneGradients {
  T x[D1][N];
  T grad_x[D1][N];  // over all edges
  T back[D1][N];    // sum_k M_ki g_k of one edge
};

// For staged rows k of a matrix: back_i += sum_k M_ki g_k, and in their place the gradient of the
// matrix, sum over channels of w g_k x_i.
template <int D1, int N, class T>
__device__ __forceinline__ void transpose_rows(
    const T* grad,
    const Channels& channels,
    RowRange rows,
    const T (&weight)[N],
    T* matrix,
    LaneGradients<D1, N, T>& lane) {
  constexpr int kStride = row_stride(D1), kRows = gradient_rows(D1);
  constexpr int kNumbers = gradient_numbers(D1);
#pragma unroll 1
  for (int first = 0; first < rows.count; first += kRows) {
    T g[kRows][N];
    const int left = rows.count - first;
    load_channels(grad, channels, 0, rows.first + first, left, g);
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      if (k < left) {
        T row[kStride];
        load_row<D1>(matrix + (first + k) * kStride, row);
        add_transposed_row<T, D1, N, 1>(row, g[k], lane.back);
      }
    }
    T gradient[kRows][D1] = {}, numbers[kNumbers] = {};
#pragma unroll
    for (int n = 0; n < N; ++n) {
      T weighted[kRows];
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
        weighted[k] = weight[n] * g[k][n];
      }
#pragma unroll
      for (int i = 0; i < D1; ++i) {
        add_to_column(weighted, lane.x[i][n], i, gradient);
      }
    }
#pragma unroll
    for (int n = 0; n < kRows * D1; ++n) {
      numbers[n] = gradient[n / D1][n % D1];
    }
    sum_lanes<kNumbers>(numbers);
    __syncwarp();  // all lanes have read these rows
    const int k = static_cast<int>(threadIdx.x) / D1;
    if (k < kRows && k < left) {
      matrix[(first + k) * kStride + threadIdx.x % D1] = numbers[0];
    }
  }
}

// grad_x += w back, and the gradient of the weights, sum_i x_i back_i.
template <int D1, int N, class T>
__device__ __forceinline__ void finish_edge(
    const Channels& channels,
    const T (&weight)[N],
    int mul2,
    T* grad_weights,
    LaneGradients<D1, N, T>& lane) {
#pragma unroll
  for (int n = 0; n < N; ++n) {
    T slope = 0;
#pragma unroll
    for (int i = 0; i < D1; ++i) {
      slope += lane.x[i][n] * lane.back[i][n];
      lane.grad_x[i][n] += weight[n] * lane.back[i][n];
      lane.back[i][n] = 0;
    }
    if (grad_weights != nullptr && channels.has(n)) {
      __stcs(grad_weights + (channels.first + n * kWarp) * mul2, slope);
    }
  }
}

// What gradients of matrices add to those of the second input of `count` edges. A lane adds up the
// terms of one component of one edge.
template <class T>
__device__ __forceinline__ void contract_gradients(
    const Plan<T>& plan,
    const PlannedPath& path,
    int copy,
    RowRange rows,
    const T* gradients,
    int count,
    T* grad_y) {
  const int stride = row_stride(path.d1), size = rows.count * stride;
  __syncwarp();  // all gradients are there
  const Run* runs = plan.by_second.run + path.terms;
  const Term<T>* terms = plan.by_second.term + path.terms;
  const int number = plan.by_second.count[path.table];
  grad_y += path.y + copy * path.y_copy;
#pragma unroll 1
  for (int n = threadIdx.x; n < count * number; n += kWarp) {
    const int b = n / number;
    const Run run = runs[n - b * number];
    T sum = 0;
#pragma unroll 1
    for (int m = run.first; m < run.last; ++m) {
      const Term<T> term = terms[m];
      const int k = term.at / kColumns - rows.first;
      if (k >= 0 && k < rows.count) {
        sum += term.value * gradients[b * size + k * stride + term.at % kColumns];
      }
    }
    grad_y[b * plan.dim_y + run.key * path.y_component] += sum;
  }
}

// One path, for one copy of the second input, of a tile and a batch of edges.
template <int D1, int N, int Batch, class T>
__device__ __forceinline__ void add_path(
    const BackwardPass<T>& pass,
    const PlannedPath& path,
    int copy,
    const Tile& tile,
    int count,
    BackwardMemory<T, Batch>& memory,
    T* grad_y,
    LaneGradients<D1, N, T>& lane) {
  const Plan<T>& plan = pass.plan;
  const Staging staging = staging_of(path, count);
  const Channels channels = channels_of(pass.in_ir_mul, path.mul, path.d3, tile.channel);
  fetch_weights<N>(
      pass.weight, plan.dim_weight, path, copy, channels, memory.edges, count, memory.weights);
#pragma unroll 1
  for (int begin = 0; begin < count; begin += staging.edges) {
    const int here = staging.edges < count - begin ? staging.edges : count - begin;
    // More than once only where a matrix fills the memory; then edges come one at a time.
#pragma unroll 1
    for (int first = 0; first < path.d3; first += staging.rows) {
      const int left = path.d3 - first;
      const RowRange rows{first, staging.rows < left ? staging.rows : left};
      stage_matrices<(Batch < 4 ? Batch : 4)>(
          plan, path, copy, rows, pass.y, memory.edges + begin, here, memory.numbers);
      wait_for_weights();
#pragma unroll 1
      for (int b = 0; b < here; ++b) {
        const EdgeRows& edge = memory.edges[begin + b];
        const T* grad = pass.grad + edge.other * plan.dim_out + path.out;
        T weight[N];
        load_weights(memory.weights, begin + b, weight);
        T* matrix = memory.numbers + b * rows.count * row_stride(D1);
        transpose_rows(grad, channels, rows, weight, matrix, lane);
        if (rows.count == left) {
          T* to = weights_of(pass.grad_weight, edge.own * plan.dim_weight, path, copy);
          finish_edge(channels, weight, path.mul2, to, lane);
        }
      }
      contract_gradients(
          plan, path, copy, rows, memory.numbers, here, grad_y + begin * plan.dim_y);
    }
  }
}

template <int D1, int N, int Batch, class T>
__device__ __forceinline__ void add_tile(
    const BackwardPass<T>& pass,
    int64_t row,
    const Tile& tile,
    int count,
    bool first,
    BackwardMemory<T, Batch>& memory,
    T* grad_y) {
  LaneGradients<D1, N, T> lane = {};
  const int64_t begin = row * pass.plan.dim_x + tile.begin;
  if (count > 0 && tile.first < tile.last) {
    const Channels channels = channels_of(pass.in_ir_mul, tile.mul, D1, tile.channel);
    load_channels(pass.x + begin, channels, 0, 0, D1, lane.x);
#pragma unroll 1
    for (int p = tile.first; p < tile.last; ++p) {
      const PlannedPath& path = pass.plan.path[p];
#pragma unroll 1
      for (int copy = 0; copy < path.mul2; ++copy) {
        add_path(pass, path, copy, tile, count, memory, grad_y, lane);
      }
    }
  }
  put_rows(tile, pass.plan.ir_mul, lane.grad_x, !first, pass.grad_x + begin, memory.numbers);
}

// The tiles of this warp, for a batch of edges of a row.
template <int Batch, class T>
__device__ __forceinline__ void add_tiles(
    const BackwardPass<T>& pass,
    int64_t row,
    int count,
    bool first,
    BackwardMemory<T, Batch>& memory,
    T* grad_y) {
  const int tiles = pass.plan.totals->tiles;
#pragma unroll 1
  for (int t = threadIdx.y; t < tiles; t += blockDim.y) {
    const Tile& tile = pass.plan.tile[t];
    for_components(tile.d, [&](auto d1) {
      constexpr int D1 = decltype(d1)::value;
      constexpr int kMost = channels_per_lane<T>(Side::kFirst, D1);
      if (tile.mul - tile.channel > kWarp) {
        add_tile<D1, kMost>(pass, row, tile, count, first, memory, grad_y);
      } else {
        add_tile<D1, 1>(pass, row, tile, count, first, memory, grad_y);
      }
    });
  }
}

// Weights that no path has, and with them, for the time being, the others.
template <class T>
__device__ void clear_weights(const BackwardPass<T>& pass, const EdgeRows* edges, int count) {
  if (pass.grad_weight == nullptr || pass.plan.totals->covers_weight) {
    return;
  }
  const int threads = kWarp * blockDim.y, thread = threadIdx.y * kWarp + threadIdx.x;
#pragma unroll 1
  for (int b = 0; b < count; ++b) {
    T* to = pass.grad_weight + edges[b].own * pass.plan.dim_weight;
#pragma unroll 1
    for (int64_t n = thread; n < pass.plan.dim_weight; n += threads) {
      to[n] = 0;
    }
  }
}

// Adds up what the warps have of the second inputs of a batch.
template <class T>
__device__ void put_second(
    const BackwardPass<T>& pass, const EdgeRows* edges, int count, const T* sums) {
  const int64_t dim = pass.plan.dim_y, of_warp = pass.batch * dim;
  const int threads = kWarp * blockDim.y, thread = threadIdx.y * kWarp + threadIdx.x;
#pragma unroll 1
  for (int b = 0; b < count; ++b) {
#pragma unroll 1
    for (int64_t j = thread; j < dim; j += threads) {
      T sum = 0;
#pragma unroll 1
      for (int warp = 0; warp < blockDim.y; ++warp) {
        sum += sums[warp * of_warp + b * dim + j];
      }
      pass.grad_y[edges[b].own * dim + j] = sum;
    }
  }
}

template <class T, class Edges>
__global__ void __launch_bounds__(kBackwardWarps* kWarp, sizeof(T) == 4 ? 4 : 3)
    differentiate_rows(BackwardPass<T> pass, Edges edges) {
  __shared__ BackwardMemory<T, Edges::kBatch> memories[kBackwardWarps];
  extern __shared__ __align__(16) unsigned char dynamic_memory[];
  BackwardMemory<T, Edges::kBatch>& memory = memories[threadIdx.y];
  T* sums = reinterpret_cast<T*>(dynamic_memory);  // (warps, batch, dim_y)
  const int64_t of_warp = pass.batch * pass.plan.dim_y;
  T* mine = sums + threadIdx.y * of_warp;
#pragma unroll 1
  for (int64_t row = blockIdx.x; row < edges.rows; row += gridDim.x) {
    const Segment segment = edges.of(row);
    int64_t k = segment.begin;
#pragma unroll 1
    do {
      const int64_t end = k + pass.batch < segment.end ? k + pass.batch : segment.end;
      const int count = load_batch(edges, k, end, memory.edges);
#pragma unroll 1
      for (int64_t n = threadIdx.x; n < of_warp; n += kWarp) {
        mine[n] = 0;
      }
      clear_weights(pass, memory.edges, count);
      __syncthreads();
      add_tiles(pass, row, count, k == segment.begin, memory, mine);
      __syncthreads();
      put_second(pass, memory.edges, count, sums);
      __syncthreads();
      k += pass.batch;
    } while (k < segment.end);
  }
}

// Shared memory for sums over as many edges, and warps, as the device allows; an error where not
// even those of one fit.
template <class T, class Edges>
const char* launch_backward(BackwardPass<T> pass, const Edges& edges, void* stream) {
  if (edges.rows == 0) {
    return nullptr;
  }
  int device = 0, most = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  const int64_t room =
      most - static_cast<int64_t>(sizeof(BackwardMemory<T, Edges::kBatch>)) * kBackwardWarps;
  const int64_t of_edge = pass.plan.dim_y * static_cast<int64_t>(sizeof(T));
  int64_t warps = pass.plan.count < kBackwardWarps ? pass.plan.count : kBackwardWarps;
  warps = warps < 1 ? 1 : warps;
  int64_t batch = Edges::kBatch;
  while (warps * batch * of_edge > room && warps * batch > 1) {
    (batch > 1 ? batch : warps) /= 2;
  }
  const int64_t bytes = warps * batch * of_edge;
  if (bytes > room) {
    return "rows of the second input are too long for the shared memory of this device";
  }
  pass.batch = static_cast<int>(batch);
  const auto kernel = differentiate_rows<T, Edges>;
  cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  const int64_t rows = edges.rows < kMostBlocks ? edges.rows : kMostBlocks;
  const dim3 block(kWarp, static_cast<unsigned>(warps));
  kernel<<<static_cast<unsigned>(rows), block, bytes, static_cast<cudaStream_t>(stream)>>>(
      pass, edges);
  return launch_error();
}

}  // namespace
}  // namespace equigeo
