// The kernel that makes the plan of a linear map: a few threads, since blocks are few.
#include "kernels/cuda/linear_plan.h"

#include "kernels/cuda/kept_part.cuh"
#include "math/path_table.h"

namespace equigeo {
namespace {

// What a block writes: a piece of a row, in which blocks of the same piece add up.
struct Piece {
  int64_t begin, size, d;
};

template <class T>
__device__ Piece piece_of(const LinearPlan<T>& plan, int64_t b) {
  const LinearBlock block = block_of(plan, b);
  return plan.use == LinearUse::kWeights ? Piece{block.weight, block.mul * block.mul_out, 1}
                                         : Piece{block.out, block.mul_out * block.d, block.d};
}

template <class T>
__device__ void require_inside(const LinearBlocks<T>& blocks, int64_t b) {
  constexpr int64_t kMostOfIrrep = 1 << 10;
  const LinearBlock& block = blocks.block[b];
  require(block.d < kMostOfIrrep);
  require(inside(block.in, block.mul, block.d, blocks.dim_in));
  require(inside(block.out, block.mul_out, block.d, blocks.dim_out));
  require(inside(block.weight, block.mul, block.mul_out, blocks.dim_weight));
}

// Whether blocks lead to the same piece; weights of two blocks never are the same where their
// gradients are written.
template <class T>
__device__ bool is_shared(const LinearPlan<T>& plan, const Piece& a, const Piece& b) {
  const bool same = a.begin == b.begin && a.size == b.size && a.d == b.d;
  require(
      (same && plan.use != LinearUse::kWeights) || a.begin + a.size <= b.begin ||
      b.begin + b.size <= a.begin);
  return same;
}

// Tiles that block b begins with: none where one before it leads to the same segment.
template <class T>
__device__ void count_tiles(const LinearPlan<T>& plan, int64_t b) {
  require_inside(plan.blocks, b);
  const Piece piece = piece_of(plan, b);
  int next = -1;
  bool first = true;
  for (int64_t q = plan.blocks.count - 1; q >= 0; --q) {
    if (q != b && is_shared(plan, piece, piece_of(plan, q))) {
      next = q > b ? static_cast<int>(q) : next;
      first = q > b;  // the last one that is looked at is the first of all
    }
  }
  const LinearBlock block = block_of(plan, b);
  const int64_t copies = (block.mul_out + kTileCopies - 1) / kTileCopies;
  const int64_t rows =
      plan.use == LinearUse::kWeights ? (block.mul + kTileVectors - 1) / kTileVectors : 1;
  plan.next[b] = next;
  plan.count[b] = first ? static_cast<int>(copies * rows) : 0;
}

template <class T>
__device__ void write_tiles(const LinearPlan<T>& plan, int64_t b) {
  LinearTile* to = plan.tile;
  for (int64_t q = 0; q < b; ++q) {
    to += plan.count[q];
  }
  const int64_t copies = (block_of(plan, b).mul_out + kTileCopies - 1) / kTileCopies;
  for (int n = 0; n < plan.count[b]; ++n) {
    const int copy = static_cast<int>(n % copies), row = static_cast<int>(n / copies);
    to[n] = {static_cast<int>(b), copy * kTileCopies, row * kTileVectors};
  }
  if (b + 1 == plan.blocks.count) {
    *plan.tiles = static_cast<int>(to - plan.tile) + plan.count[b];
  }
}

template <class T>
__device__ void plan_tiles(const LinearPlan<T>& plan) {
  for (int64_t b = threadIdx.x; b < plan.blocks.count; b += blockDim.x) {
    count_tiles(plan, b);
  }
  __syncthreads();
  for (int64_t b = threadIdx.x; b < plan.blocks.count; b += blockDim.x) {
    write_tiles(plan, b);
  }
  if (plan.blocks.count == 0 && threadIdx.x == 0) {
    *plan.tiles = 0;
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) plan_blocks(LinearPlan<T> plan) {
  make_if_changed(
      plan.made, [&] { plan_tiles(plan); },
      Read<LinearBlock>{plan.blocks.block, plan.last, plan.blocks.count});
}

}  // namespace

template <class T>
const char* make_linear_plan(const LinearPlan<T>& plan, void* stream) {
  launch_kernel(plan_blocks<T>, 1, kThreads, 0, stream, plan);
  return launch_error();
}

template const char* make_linear_plan(const LinearPlan<float>&, void*);
template const char* make_linear_plan(const LinearPlan<double>&, void*);

}  // namespace equigeo
