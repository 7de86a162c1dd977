// A block makes one row of the output, or a slice of it; each of its warps makes tiles of the row,
// one after another. A lane keeps its channels of a tile in registers over all paths and edges.
#include "kernels/cuda/sum_products.h"

#include <type_traits>

#include "kernels/cuda/channels.cuh"
#include "kernels/cuda/edge_weights.cuh"
#include "kernels/cuda/staged_channels.cuh"
#include "kernels/cuda/staged_matrices.cuh"

namespace equigeo {
namespace {

constexpr int kWarps = 4;     // of a block, at most
constexpr int kChannels = 2;  // of a lane, at most

// Blocks that a multiprocessor must have registers for.
template <class S>
constexpr int kResident = sizeof(S) == 4 ? 4 : 3;

// What a warp keeps in shared memory: hidden numbers of edges, then matrices, then rows of a tile
// in the same place. Components are inside in products of rows alone, whose batches have one edge:
// behind its matrix there is room for its channels.
template <class T>
struct alignas(16) WarpMemory {
  static constexpr int kMatrix = kMostRows * row_stride(13);
  static constexpr int kStaged = kMatrix + kChannels * kWarp * 13;
  static constexpr int kHidden = kBatch * kMatrix;
  static constexpr int kNumbers = kStaged > kHidden ? kStaged : kHidden;
  static_assert(kNumbers >= kPutNumbers<kMostRows, kChannels>);
  T numbers[kNumbers];
  T weights[kBatch * kChannels * kWarp];
  EdgeRows edges[kBatch];
};

// Channels of a lane whose components it holds at once.
template <class T>
EQUIGEO_HOST_DEVICE constexpr int channels_at_once(int d1, int channels) {
  return d1 * sizeof(T) <= 40 ? channels : 1;
}

// sum_k += sum_i M_ki (w x_i) for one edge and the staged rows k of its matrix. Its channels are in
// global or in shared memory: one path of the code for both, or registers would not suffice.
template <int D1, int R, int N, class S, class T>
__device__ __forceinline__ void add_product(
    const S* x, const Channels& channels, const T (&weight)[N], const T* matrix, T (&sum)[R][N]) {
  constexpr int kAtOnce = channels_at_once<T>(D1, N);
#pragma unroll
  for (int n = 0; n < N; n += kAtOnce) {
    T values[D1][kAtOnce];
    load_channels<D1, kAtOnce, false>(x, channels, n, 0, D1, values);
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

template <int N, class S, class T>
__device__ __forceinline__ void bring_weights(
    const SumProducts<S>& op,
    const PlannedPath& path,
    int copy,
    const Channels& channels,
    int count,
    WarpMemory<T>& memory) {
  if constexpr (std::is_same_v<S, T>) {  // there is no such layer in bfloat16
    if (op.layer.hidden != nullptr && path.weight >= 0) {
      constexpr int kRoom = WarpMemory<T>::kHidden / kBatch;
      compute_weights<N, kRoom>(
          op.layer, path, copy, channels, memory.edges, count, memory.numbers, memory.weights);
      return;
    }
  }
  fetch_weights<N>(
      op.weight, op.plan.dim_weight, path, copy, channels, memory.edges, count, memory.weights);
}

// One path, for one copy of the second input, of a tile and a batch of edges.
template <int R, int N, class S, class T>
__device__ __forceinline__ void add_path(
    const SumProducts<S>& op,
    const PlannedPath& path,
    int copy,
    const Tile& tile,
    int count,
    WarpMemory<T>& memory,
    T (&sum)[R][N]) {
  const Plan<T>& plan = op.plan;
  Channels channels = channels_of(op.x_ir_mul, path.mul, path.d1, tile.channel);
  bring_weights<N>(op, path, copy, channels, count, memory);
  S* staged = nullptr;
  if (!op.x_ir_mul && path.d1 > 1) {
    staged = reinterpret_cast<S*>(memory.numbers + WarpMemory<T>::kMatrix);
    const S* x = op.x + memory.edges[0].other * plan.dim_x + path.x;
    stage_channels<N>(x, path.mul, path.d1, tile.channel, staged);
    channels.first = threadIdx.x;  // of those that are staged
  }
  stage_matrices(plan, path, copy, {tile.row, R}, op.y, memory.edges, count, memory.numbers);
  wait_for_copies();
  __syncwarp();  // matrices, and channels that other lanes copied
  for_components(path.d1, [&](auto d1) {
    constexpr int D1 = decltype(d1)::value;
#pragma unroll 1
    for (int b = 0; b < count; ++b) {
      T weight[N];
      load_weights(memory.weights, b, weight);
      const S* x = op.x + memory.edges[b].other * plan.dim_x + path.x;
      const T* matrix = memory.numbers + b * R * row_stride(D1);
      add_product<D1>(staged == nullptr ? x : staged, channels, weight, matrix, sum);
    }
  });
}

template <int R, int N, class S, class T>
__device__ __forceinline__ void make_tile(
    const SumProducts<S>& op, int64_t row, const Tile& tile, WarpMemory<T>& memory) {
  T sum[R][N] = {};
  const EdgeRange segment = tile.first < tile.last ? positions_of(op.edges, row) : EdgeRange{0, 0};
#pragma unroll 1
  for (int64_t k = segment.begin; k < segment.end; k += kBatch) {
    const int count = load_batch(op.edges, k, segment.end, kBatch, memory.edges);
#pragma unroll 1
    for (int p = tile.first; p < tile.last; ++p) {
      const PlannedPath& path = op.plan.path[p];
#pragma unroll 1
      for (int copy = 0; copy < path.mul2; ++copy) {
        add_path(op, path, copy, tile, count, memory, sum);
      }
    }
  }
  const Target<S> target{op.out + row * op.plan.dim_out + tile.begin, nullptr, true, true};
  put_rows(tile, op.plan.ir_mul, sum, target, memory.numbers);
}

template <int R, class S, class T>
__device__ __forceinline__ void make_rows(
    const SumProducts<S>& op, int64_t row, const Tile& tile, WarpMemory<T>& memory) {
  if (tile.mul - tile.channel > kWarp) {
    make_tile<R, kChannels>(op, row, tile, memory);
  } else {
    make_tile<R, 1>(op, row, tile, memory);
  }
}

template <class S>
__global__ void __launch_bounds__(kWarps* kWarp, kResident<S>) sum_rows(SumProducts<S> op) {
  WarpMemory<Compute<S>>& memory = static_shared<WarpMemory<Compute<S>>[kWarps]>()[threadIdx.y];
  const int tiles = op.plan.totals->tiles;
#pragma unroll 1
  for (int64_t row = blockIdx.x; row < op.edges.rows; row += gridDim.x) {
#pragma unroll 1
    for (int t = blockIdx.y * blockDim.y + threadIdx.y; t < tiles; t += gridDim.y * blockDim.y) {
      const Tile& tile = op.plan.tile[t];
      if (tile.rows == 1) {
        make_rows<1>(op, row, tile, memory);
      } else if (tile.rows <= 3) {
        make_rows<3>(op, row, tile, memory);
      } else if (tile.rows <= 5) {
        make_rows<5>(op, row, tile, memory);
      } else {
        make_rows<kMostRows>(op, row, tile, memory);
      }
    }
  }
}

}  // namespace

// Blocks of as many warps as there may be tiles; a row is sliced where rows are too few to fill a
// GPU.
template <class S>
const char* sum_products(const SumProducts<S>& op, void* stream) {
  constexpr int64_t kEnough = 4096;  // warps, for every multiprocessor of a large GPU
  const int64_t rows = op.edges.rows;
  if (rows == 0 || op.plan.dim_out == 0) {
    return nullptr;
  }
  const int64_t paths = op.plan.count < 1 ? 1 : op.plan.count;
  const int64_t warps = paths < kWarps ? paths : kWarps;
  const int64_t wanted = kEnough / (rows * warps), most = paths / warps;
  const int64_t slices = wanted < most ? wanted : most;
  const dim3 grid(
      static_cast<unsigned>(rows < kMostBlocks ? rows : kMostBlocks),
      static_cast<unsigned>(slices < 1 ? 1 : slices));
  const dim3 block(kWarp, static_cast<unsigned>(warps));
  launch_kernel(sum_rows<S>, grid, block, 0, stream, op);
  return launch_error();
}

template const char* sum_products(const SumProducts<float>&, void*);
template const char* sum_products(const SumProducts<double>&, void*);
template const char* sum_products(const SumProducts<Bf16>&, void*);

}  // namespace equigeo
