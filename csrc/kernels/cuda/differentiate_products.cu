// A block takes the edges of one row of the first input, a batch at a time; its warps take tiles of
// that row. What belongs to an edge is needed by all of them: gradients of weights are written by
// the warp that has the channels, gradients of the second input add up in each warp and then over
// the warps, in order.
#include "kernels/cuda/differentiate_products.h"

#include "kernels/cuda/channels.cuh"
#include "kernels/cuda/edge_weights.cuh"
#include "kernels/cuda/staged_channels.cuh"
#include "kernels/cuda/staged_matrices.cuh"
#include "kernels/cuda/sum_lanes.cuh"

namespace equigeo {
namespace {

constexpr int kWarps = 4;       // of a block, at most
constexpr int kChannels = 2;    // of a lane, at most
constexpr int kMatrices = 512;  // numbers of staged matrices

// Blocks that a multiprocessor must have registers for. With one more of them some would spill.
template <class S>
constexpr int kResident = sizeof(Compute<S>) == 4 ? 3 : 2;

// What a warp keeps in shared memory: matrices, then their gradients, then rows of a tile in the
// same place. Components are inside in products of rows alone, whose batches have one edge: behind
// its weights there is room for its channels.
template <class T>
struct alignas(16) WarpMemory {
  static constexpr int kWeights = kBatch * kChannels * kWarp;
  static constexpr int kStaged = kWeights - kChannels * kWarp;
  static_assert(kMatrices >= kPutNumbers<7, kChannels> && kMatrices >= kPutNumbers<13, 1>);
  static_assert(kStaged >= 7 * kChannels * kWarp && kStaged >= 13 * kWarp);
  T numbers[kMatrices];
  T weights[kWeights];
  EdgeRows edges[kBatch];

  __device__ T* channels() { return weights + kChannels * kWarp; }
};

// A batch of edges of a row, for one warp.
template <class T>
struct Batch {
  int count;
  bool first, last;  // of the row
  WarpMemory<T>& memory;
  T* grad_y;  // (count, dim_y) in shared memory, over the tiles of the warp
};

// Rows of the gradient of a matrix that are made at once, and their numbers up to a power of two.
EQUIGEO_HOST_DEVICE constexpr int rows_at_once(int d1) {
  return d1 == 1 ? 8 : d1 <= 8 ? 16 / d1 : 1;
}
EQUIGEO_HOST_DEVICE constexpr int numbers_at_once(int d1) { return d1 == 1 ? 8 : 16; }

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
struct Lane {
  T x[D1][N];
  T grad_x[D1][N];  // over the edges of a batch
  T back[D1][N];    // sum_k M_ki g_k of one edge
};

// For staged rows k of a matrix: back_i += sum_k M_ki g_k, and in their place the gradient of the
// matrix, sum over channels of w g_k x_i.
template <int D1, int N, class S, class T>
__device__ __forceinline__ void transpose_rows(
    const MaybeStaged<S, T>& grad,
    const Channels& channels,
    RowRange rows,
    const T (&weight)[N],
    T* matrix,
    Lane<D1, N, T>& lane) {
  constexpr int kStride = row_stride(D1), kRows = rows_at_once(D1);
  constexpr int kNumbers = numbers_at_once(D1);
#pragma unroll 1
  for (int first = 0; first < rows.count; first += kRows) {
    T g[kRows][N];
    const int left = rows.count - first;
    grad.load(channels, rows.first + first, left, g);
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
template <int D1, int N, class S, class T>
__device__ __forceinline__ void finish_edge(
    const Channels& channels,
    const T (&weight)[N],
    int mul2,
    S* grad_weights,
    Lane<D1, N, T>& lane) {
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
      store_away(grad_weights + channels.at(n) * mul2, slope);
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
  const Runs<T>& runs = plan.by_second;
  const int number = runs.count[path.table];
  grad_y += path.y + copy * path.y_copy;
#pragma unroll 1
  for (int n = threadIdx.x; n < count * number; n += kWarp) {
    const int b = n / number, run = n - b * number;
    const int length = runs.length[path.terms + run];
    T sum = 0;
#pragma unroll 1
    for (int m = 0; m < length; ++m) {
      const int term = path.terms + runs.start[path.terms + m] + run;
      const int place = runs.at[term], k = place / kColumns - rows.first;
      if (k >= 0 && k < rows.count) {
        sum += runs.value[term] * gradients[b * size + k * stride + place % kColumns];
      }
    }
    grad_y[b * plan.dim_y + runs.key[path.terms + run] * path.y_component] += sum;
  }
}

// One path, for one copy of the second input, of a tile and a batch of edges.
template <int D1, int N, class S, class T>
__device__ __forceinline__ void add_path(
    const DifferentiateProducts<S>& op,
    const PlannedPath& path,
    int copy,
    const Tile& tile,
    const Batch<T>& batch,
    Lane<D1, N, T>& lane) {
  const Plan<T>& plan = op.plan;
  WarpMemory<T>& memory = batch.memory;
  const Staging staging = staging_of(path, batch.count);
  const Channels channels = channels_of(op.in_ir_mul, path.mul, path.d3, tile.channel);
  fetch_weights<N>(
      op.weight, plan.dim_weight, path, copy, channels, memory.edges, batch.count, memory.weights);
  // Components are inside where there is one edge alone.
  const bool stages = !op.in_ir_mul && fits<N>(path.d3, WarpMemory<T>::kStaged);
  T* staged = stages ? memory.channels() : nullptr;
  if (stages) {
    const S* grad = op.grad + memory.edges[0].other * plan.dim_out + path.out;
    stage_channels<N>(grad, path.mul, path.d3, tile.channel, staged);
  }
#pragma unroll 1
  for (int begin = 0; begin < batch.count; begin += staging.edges) {
    const int left = batch.count - begin, count = staging.edges < left ? staging.edges : left;
    // More than once only where a matrix fills the memory; then edges come one at a time.
#pragma unroll 1
    for (int first = 0; first < path.d3; first += staging.rows) {
      const int behind = path.d3 - first;
      const RowRange rows{first, staging.rows < behind ? staging.rows : behind};
      stage_matrices(plan, path, copy, rows, op.y, memory.edges + begin, count, memory.numbers);
      wait_for_copies();
      __syncwarp();  // matrices, and channels that other lanes copied
#pragma unroll 1
      for (int b = 0; b < count; ++b) {
        const EdgeRows& edge = memory.edges[begin + b];
        T weight[N];
        load_weights(memory.weights, begin + b, weight);
        const S* grad = op.grad + edge.other * plan.dim_out + path.out;
        const MaybeStaged<S, T> arriving{grad, staged, path.d3};
        T* matrix = memory.numbers + b * rows.count * row_stride(D1);
        transpose_rows(arriving, channels, rows, weight, matrix, lane);
        if (rows.count == behind) {
          S* to = weights_of(op.grad_weight, edge.own * plan.dim_weight, path, copy);
          finish_edge(channels, weight, path.mul2, to, lane);
        }
      }
      contract_gradients(
          plan, path, copy, rows, memory.numbers, count, batch.grad_y + begin * plan.dim_y);
    }
  }
}

template <int D1, int N, class S, class T>
__device__ __forceinline__ void add_tile(
    const DifferentiateProducts<S>& op, int64_t row, const Tile& tile, const Batch<T>& batch) {
  Lane<D1, N, T> lane = {};
  const int64_t begin = row * op.plan.dim_x + tile.begin;
  if (batch.count > 0 && tile.first < tile.last) {
    const Channels channels = channels_of(op.in_ir_mul, tile.mul, D1, tile.channel);
    if (op.in_ir_mul || D1 == 1) {
      load_channels(op.x + begin, channels, 0, 0, D1, lane.x);
    } else {
      T* staged = batch.memory.channels();
      stage_channels<N>(op.x + begin, tile.mul, D1, tile.channel, staged);
      wait_for_copies();
      __syncwarp();
      load_staged(staged, channels, D1, 0, 0, D1, lane.x);
    }
#pragma unroll 1
    for (int p = tile.first; p < tile.last; ++p) {
      const PlannedPath& path = op.plan.path[p];
#pragma unroll 1
      for (int copy = 0; copy < path.mul2; ++copy) {
        add_path(op, path, copy, tile, batch, lane);
      }
    }
  }
  T* sums = op.sums == nullptr ? nullptr : op.sums + begin;
  const Target<S> target{op.grad_x + begin, sums, batch.first, batch.last};
  put_rows(tile, op.plan.ir_mul, lane.grad_x, target, batch.memory.numbers);
}

// The tiles of this warp.
template <class S, class T>
__device__ __forceinline__ void add_tiles(
    const DifferentiateProducts<S>& op, int64_t row, const Batch<T>& batch) {
  const int tiles = op.plan.totals->tiles;
#pragma unroll 1
  for (int t = threadIdx.y; t < tiles; t += blockDim.y) {
    const Tile& tile = op.plan.tile[t];
    for_components(tile.d, [&](auto d1) {
      constexpr int D1 = decltype(d1)::value;
      constexpr int kMost = channels_per_lane<T>(Side::kFirst, D1);
      if (tile.mul - tile.channel > kWarp) {
        add_tile<D1, kMost>(op, row, tile, batch);
      } else {
        add_tile<D1, 1>(op, row, tile, batch);
      }
    });
  }
}

// Zero where some weights have no path, for the time being also where they have one.
template <class S>
__device__ void clear_weights(
    const DifferentiateProducts<S>& op, const EdgeRows* edges, int count) {
  if (op.plan.totals->covers_weight) {
    return;
  }
  const int threads = kWarp * blockDim.y, thread = threadIdx.y * kWarp + threadIdx.x;
#pragma unroll 1
  for (int b = 0; b < count; ++b) {
    S* to = op.grad_weight + edges[b].own * op.plan.dim_weight;
#pragma unroll 1
    for (int64_t n = thread; n < op.plan.dim_weight; n += threads) {
      to[n] = S{};
    }
  }
}

// Add up what the warps have of the gradients of the second inputs, `stride` apart.
template <class S, class T>
__device__ void put_second(
    const DifferentiateProducts<S>& op,
    const EdgeRows* edges,
    int count,
    const T* sums,
    int64_t stride) {
  const int64_t dim = op.plan.dim_y;
  const int threads = kWarp * blockDim.y, thread = threadIdx.y * kWarp + threadIdx.x;
#pragma unroll 1
  for (int b = 0; b < count; ++b) {
#pragma unroll 1
    for (int64_t j = thread; j < dim; j += threads) {
      T sum = 0;
#pragma unroll 1
      for (unsigned warp = 0; warp < blockDim.y; ++warp) {
        sum += sums[warp * stride + b * dim + j];
      }
      store(op.grad_y + edges[b].own * dim + j, sum);
    }
  }
}

// `most` is the number of edges of a batch.
template <class S>
__global__ void __launch_bounds__(kWarps* kWarp, kResident<S>)
    differentiate_rows(DifferentiateProducts<S> op, int most) {
  using T = Compute<S>;
  T* sums = dynamic_shared<T>();  // (warps, most, dim_y)
  const int64_t stride = most * op.plan.dim_y;
  WarpMemory<T>& memory = static_shared<WarpMemory<T>[kWarps]>()[threadIdx.y];
  T* grad_y = sums + threadIdx.y * stride;
#pragma unroll 1
  for (int64_t row = blockIdx.x; row < op.edges.rows; row += gridDim.x) {
    const EdgeRange segment = positions_of(op.edges, row);
    int64_t k = segment.begin;
#pragma unroll 1
    do {
      const int count = load_batch(op.edges, k, segment.end, most, memory.edges);
#pragma unroll 1
      for (int64_t n = threadIdx.x; n < stride; n += kWarp) {
        grad_y[n] = 0;
      }
      clear_weights(op, memory.edges, count);
      __syncthreads();
      const Batch<T> batch{count, k == segment.begin, k + count == segment.end, memory, grad_y};
      add_tiles(op, row, batch);
      __syncthreads();
      put_second(op, memory.edges, count, sums, stride);
      __syncthreads();
      k += count;
    } while (k < segment.end);
  }
}

}  // namespace

// Shared memory for the gradients of the second inputs of as many edges, and in as many warps, as
// the device allows; an error where not even those of one fit.
template <class S>
const char* differentiate_products(const DifferentiateProducts<S>& op, void* stream) {
  using T = Compute<S>;
  if (op.edges.rows == 0) {
    return nullptr;
  }
  int device = 0, most = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  const int64_t room = most - static_cast<int64_t>(sizeof(WarpMemory<T>)) * kWarps;
  const int64_t of_edge = op.plan.dim_y * static_cast<int64_t>(sizeof(T));
  int64_t warps = op.plan.count < kWarps ? op.plan.count : kWarps, batch = kBatch;
  warps = warps < 1 ? 1 : warps;
  while (warps * batch * of_edge > room && warps * batch > 1) {
    (batch > 1 ? batch : warps) /= 2;
  }
  const int64_t bytes = warps * batch * of_edge;
  if (bytes > room) {
    return "rows of the second input are too long for the shared memory of this device";
  }
  const auto kernel = differentiate_rows<S>;
  cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  const int64_t rows = op.edges.rows < kMostBlocks ? op.edges.rows : kMostBlocks;
  const dim3 grid(static_cast<unsigned>(rows)), block(kWarp, static_cast<unsigned>(warps));
  launch_kernel(kernel, grid, block, bytes, stream, op, static_cast<int>(batch));
  return launch_error();
}

template const char* differentiate_products(const DifferentiateProducts<float>&, void*);
template const char* differentiate_products(const DifferentiateProducts<double>&, void*);
template const char* differentiate_products(const DifferentiateProducts<Bf16>&, void*);

}  // namespace equigeo
