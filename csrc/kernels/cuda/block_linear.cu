// The map is a product of matrices for every segment of the output: of (rows times components) by
// (copies), over the copies of all segments that lead there. A block of threads makes tiles of it.
#include "args/block_linear.h"

#include "kernels/cuda/launch.h"
#include "kernels/cuda/linear_map.h"
#include "kernels/cuda/linear_tiles.cuh"

namespace equigeo {
namespace {

// Weights [copy, copy + kDepth) x [first, first + kTileCopies) of a block times its factor, zero
// where there are none.
template <class S, class T>
__device__ __forceinline__ void stage_weights(
    const S* weight,
    const LinearBlock& block,
    T factor,
    bool transposed,
    int copy,
    int first,
    T* to) {
  constexpr int kCount = kDepth * kTileCopies, kTogether = 8;
#pragma unroll
  for (int e = 0; e < kCount / kTileThreads; ++e) {
    const int n = threadIdx.x + e * kTileThreads;
    // Lanes read neighbours: copies of the output, but of the input if transposed.
    const int plain = n / kTileCopies, part = n / (kTogether * kTileCopies);
    const int u = transposed ? part * kTogether + n % kTogether : plain;
    const int w = transposed ? n / kTogether % kTileCopies : n % kTileCopies;
    const int64_t row = copy + u, column = first + w;
    const bool any = row < block.mul && column < block.mul_out;
    const int64_t at = transposed ? column * block.mul + row : row * block.mul_out + column;
    to[u * kRowB + w] = any ? factor * load(weight + at) : T(0);
  }
}

// What one block gives to a tile.
template <class S, class T>
__device__ __forceinline__ void add_block(
    const LinearMap<S>& op,
    int64_t b,
    int64_t group,
    const LinearTile& tile,
    const Vectors& vectors,
    LinearMemory<T>& memory,
    TileSum<T>& sum) {
  const LinearBlock block = block_of(op.plan, b);
  const bool transposed = op.plan.use == LinearUse::kInput;
  const LinearSegment segment{
      op.dim_in, block.in, static_cast<int>(block.mul), static_cast<int>(block.d),
      op.plan.blocks.ir_mul};
  const S* weight = op.weight + group * op.plan.blocks.dim_weight + block.weight;
  const S* in = op.in + group * op.group * op.dim_in;
  Spots<kDepth * kTileVectors, kDepth> spots{};
  spots.find(vectors, segment);
  const T factor = op.plan.blocks.factor[b];
#pragma unroll 1
  for (int copy = 0; copy < segment.mul; copy += kDepth) {
    __syncthreads();  // what was there has been read
    spots.stage(in, segment, copy, memory.first(), [](const Spot& spot) {
      return spot.copy * kRowA + spot.vector;
    });
    stage_weights(weight, block, factor, transposed, copy, tile.copy, memory.second());
    __syncthreads();
    multiply_tile(memory, sum);
  }
}

template <class S, class T>
__device__ __forceinline__ void write_tile(
    const LinearMap<S>& op,
    const LinearBlock& block,
    int64_t group,
    const LinearTile& tile,
    const Vectors& vectors,
    const TileSum<T>& sum,
    LinearMemory<T>& memory) {
  const LinearSegment segment{
      op.dim_out, block.out, static_cast<int>(block.mul_out), static_cast<int>(block.d),
      op.plan.blocks.ir_mul};
  S* out = op.out + (group * op.group + vectors.row) * op.dim_out + tile.copy * segment.next_copy();
  stage_result(sum, memory);
#pragma unroll 1
  for (int n = threadIdx.x; n < vectors.count() * kTileCopies; n += kTileThreads) {
    const Spot spot = spot_of(vectors, segment, kTileCopies, n);
    if (tile.copy + spot.copy < segment.mul) {
      store(out + spot.at, memory.result()[spot.vector * kRowB + spot.copy]);
    }
  }
}

// Blocks of threads take some vectors of some groups, and some copies of a segment.
template <class S>
__global__ void __launch_bounds__(kTileThreads, kResident) map_tiles(LinearMap<S> op) {
  using T = Compute<S>;
  LinearMemory<T>& memory = linear_memory<T>();
  const int tiles = *op.plan.tiles;
#pragma unroll 1
  for (int64_t t = blockIdx.y; t < tiles; t += gridDim.y) {
    const LinearTile tile = op.plan.tile[t];
    const LinearBlock block = block_of(op.plan, tile.block);
    const int d = static_cast<int>(block.d);
    const int64_t of_group = vector_tiles(op.group, d, kTileVectors);
#pragma unroll 1
    for (int64_t n = blockIdx.x; n < of_group * op.groups; n += gridDim.x) {
      const Vectors vectors = vectors_of(n % of_group, op.group, d, kTileVectors);
      TileSum<T> sum = {};
#pragma unroll 1
      for (int b = tile.block; b >= 0; b = op.plan.next[b]) {
        add_block(op, b, n / of_group, tile, vectors, memory, sum);
      }
      write_tile(op, block, n / of_group, tile, vectors, sum, memory);
    }
  }
}

// Zero where no block leads: a thread for each column, of as many rows as the grid leaves to it.
template <class S>
__global__ void clear_gaps(LinearMap<S> op) {
  for (int64_t column = first_item(); column < op.dim_out; column += item_stride()) {
    bool reached = false;
    for (int64_t b = 0; b < op.plan.blocks.count && !reached; ++b) {
      const LinearBlock block = block_of(op.plan, b);
      reached = block.out <= column && column < block.out + block.mul_out * block.d;
    }
    for (int64_t row = blockIdx.y; row < op.groups * op.group && !reached; row += gridDim.y) {
      op.out[row * op.dim_out + column] = S{};
    }
  }
}

template <class S>
const char* run(const BlockLinear<S>& op, void* memory, void* stream) {
  Carver carver(memory);
  const auto plan = cut_linear_plans(op.blocks, carver).map;
  const LinearMap<S> map{
      plan,  op.x, op.weight, op.groups, op.rows / op.groups, op.blocks.dim_in, op.blocks.dim_out,
      op.out};
  const char* error = make_linear_plan(plan, stream);
  return error == nullptr ? map_rows(map, stream) : error;
}

template <class S>
int64_t size_of(const BlockLinear<S>& op) {
  Carver memory(nullptr);
  cut_linear_plans(op.blocks, memory);
  return memory.used();
}

}  // namespace

template <class S>
const char* map_rows(const LinearMap<S>& op, void* stream) {
  constexpr int64_t kMostAcross = 1 << 15;  // of a grid; kernels stride over what is beyond
  constexpr int64_t kThreadsAcross = 1 << 17;
  const int64_t rows = op.groups * op.group;
  if (rows == 0 || op.dim_out == 0) {
    return nullptr;
  }
  const auto bounded = [](int64_t count, int64_t most) {
    return static_cast<unsigned>(count < 1 ? 1 : count < most ? count : most);
  };
  const int64_t columns = (op.dim_out + kThreads - 1) / kThreads;
  const int64_t each = kThreadsAcross / (columns * kThreads);
  const dim3 gaps(bounded(columns, kMostBlocks), bounded(each < rows ? each : rows, kMostAcross));
  launch_kernel(clear_gaps<S>, gaps, kThreads, 0, stream, op);
  // Blocks for as many tiles as rows of five components make.
  const int64_t tiles = op.groups * ((op.group * 5 + kTileVectors - 1) / kTileVectors);
  const dim3 grid(bounded(tiles, kMostBlocks), bounded(op.plan.most, kMostAcross));
  launch_kernel(map_tiles<S>, grid, kTileThreads, 0, stream, op);
  return launch_error();
}

template const char* map_rows(const LinearMap<float>&, void*);
template const char* map_rows(const LinearMap<double>&, void*);
template const char* map_rows(const LinearMap<Bf16>&, void*);

EQUIGEO_DEFINE_LAUNCHES(BlockLinear)
EQUIGEO_DEFINE_LAUNCH(BlockLinear<Bf16>)

}  // namespace equigeo
