// A block makes one row of the output, which is a sum over edges, or a few rows with an edge each;
// or a slice of them. Each of its warps makes tiles of the rows, one after another. A lane keeps
// its channels of a tile in registers over all paths and edges.
#include "kernels/cuda/sum_products.h"

#include "kernels/cuda/is_known.cuh"
#include "kernels/cuda/sum_edges.cuh"

namespace equigeo {
namespace {

// Warps of a block, at most, and blocks that a multiprocessor must have registers for.
template <class S>
constexpr int kWarps = sizeof(S) == 8 ? 2 : 4;
template <class S, bool Second>
constexpr int kResident = sizeof(S) == 8 ? 6 : (sizeof(S) == 4 ? 4 : 3) - (Second ? 1 : 0);

// A tile of the rows [first, end), which have an edge each, or of one row.
template <bool Second, int R, int N, class S>
__device__ __forceinline__ void make_tile(
    const SumProducts<S>& op, int64_t first, int64_t end, const Tile& tile, WarpMemory<S>& memory) {
  using T = Compute<S>;
  T sum[R][N] = {};
  const auto put = [&](int64_t row) {
    const Target<S> target{op.out + row * op.plan.dim_out + tile.begin, nullptr, true, true};
    put_rows(tile, op.plan.ir_mul, sum, target, memory.rows);
#pragma unroll
    for (int k = 0; k < R; ++k) {
#pragma unroll
      for (int n = 0; n < N; ++n) {
        sum[k][n] = 0;
      }
    }
  };
  const bool own = op.edges.ptr == nullptr;
  // Rows of one path are finished one by one, with all their matrices there.
  const bool alone = own && tile.last - tile.first == 1 && op.plan.path[tile.first].mul2 == 1;
  const int most = own && !alone ? 1 : kEdges<Second>;
  const EdgeRange segment = own                      ? EdgeRange{first, end}
                            : tile.first < tile.last ? positions_of(op.edges, first)
                                                     : EdgeRange{0, 0};
  int64_t k = segment.begin;
#pragma unroll 1
  do {
    const int count = load_batch(op.edges, k, segment.end, most, memory.edges);
#pragma unroll 1
    for (int p = tile.first; p < tile.last; ++p) {
      const PlannedPath& path = op.plan.path[p];
#pragma unroll 1
      for (int copy = 0; copy < path.mul2; ++copy) {
        add_path<Second>(op, path, copy, tile, count, memory, sum, [&](int b) {
          if (alone) {
            put(k + b);
          }
        });
      }
    }
    if (own ? !alone : k + count >= segment.end) {
      put(own ? k : first);
    }
    k += count;
  } while (k < segment.end);
}

template <int R, bool Second, class S>
__device__ __forceinline__ void make_rows(
    const SumProducts<S>& op, int64_t first, int64_t end, const Tile& tile, WarpMemory<S>& memory) {
  if constexpr (!Second) {
    if (tile.mul - tile.channel > kWarp) {
      make_tile<Second, R, kChannels>(op, first, end, tile, memory);
    } else {
      make_tile<Second, R, 1>(op, first, end, tile, memory);
    }
  } else {  // one channel of a lane at a time, or registers would not suffice
    Tile part = tile;
#pragma unroll 1
    for (int n = 0; n < kChannels && part.channel < part.mul; ++n, part.channel += kWarp) {
      make_tile<Second, R, 1>(op, first, end, part, memory);
    }
  }
}

// Blocks take `together` rows at a time.
template <bool Second, class S>
__global__ void __launch_bounds__(kWarps<S>* kWarp, kResident<S, Second>)
    sum_rows(SumProducts<S> op, int together) {
  if (op.known && is_known(op.plan)) {
    return;
  }
  WarpMemory<S>& memory = static_shared<WarpMemory<S>[kWarps<S>]>()[threadIdx.y];
  const int tiles = op.plan.totals->tiles;
  const int64_t step = static_cast<int64_t>(gridDim.x) * together;
#pragma unroll 1
  for (int64_t row = blockIdx.x * static_cast<int64_t>(together); row < op.edges.rows;
       row += step) {
    const int64_t end = row + together < op.edges.rows ? row + together : op.edges.rows;
#pragma unroll 1
    for (int t = blockIdx.y * blockDim.y + threadIdx.y; t < tiles; t += gridDim.y * blockDim.y) {
      const Tile& tile = op.plan.tile[t];
      if (tile.rows == 1) {
        make_rows<1, Second>(op, row, end, tile, memory);
      } else if (tile.rows <= 3) {
        make_rows<3, Second>(op, row, end, tile, memory);
      } else if (tile.rows <= 5) {
        make_rows<5, Second>(op, row, end, tile, memory);
      } else {
        make_rows<kMostRows, Second>(op, row, end, tile, memory);
      }
    }
  }
}

// How many of some rows a block takes at a time: one where there are few.
template <bool Second>
int64_t rows_together(const EdgeList& edges) {
  constexpr int64_t kEnough = 2 * kManyBlocks;  // they are smaller
  const int64_t fit = edges.ptr == nullptr ? edges.rows / kEnough : 1;
  return fit < 1 ? 1 : fit < kEdges<Second> ? fit : kEdges<Second>;
}

// Blocks of as many warps as there may be tiles; rows are sliced where they are too few to fill a
// GPU.
template <bool Second, class S>
void launch_sums(const SumProducts<S>& op, void* stream) {
  constexpr int64_t kEnough = 4 * kManyBlocks;  // warps
  const int64_t together = rows_together<Second>(op.edges);
  const int64_t units = (op.edges.rows + together - 1) / together;
  const int64_t paths = op.plan.count < 1 ? 1 : op.plan.count;
  const int64_t warps = paths < kWarps<S> ? paths : kWarps<S>;
  const int64_t wanted = kEnough / (units * warps), most = paths / warps;
  const int64_t slices = wanted < most ? wanted : most;
  const dim3 grid(grid_of(units), static_cast<unsigned>(slices < 1 ? 1 : slices));
  const dim3 block(kWarp, static_cast<unsigned>(warps));
  launch_kernel(sum_rows<Second, S>, grid, block, 0, stream, op, static_cast<int>(together));
}

template <class S>
bool is_plain_conv(const SumProducts<S>& op) {
  return op.edges.ptr != nullptr && op.weight != nullptr && op.x_ir_mul;
}

}  // namespace

template <class S>
const char* sum_products(const SumProducts<S>& op, void* stream) {
  if (op.edges.rows == 0 || op.plan.dim_out == 0) {
    return nullptr;
  }
  SumProducts<S> rest = op;
  if constexpr (std::is_same_v<S, float>) {
    rest.known = is_plain_conv(op) && sum_targets(op, stream);
  }
  if (op.second) {
    launch_sums<true>(rest, stream);
  } else {
    launch_sums<false>(rest, stream);
  }
  return launch_error();
}

template const char* sum_products(const SumProducts<float>&, void*);
template const char* sum_products(const SumProducts<double>&, void*);
template const char* sum_products(const SumProducts<Bf16>&, void*);

}  // namespace equigeo
