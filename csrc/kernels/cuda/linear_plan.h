// The blocks of a linear map in the form in which kernels read them, made on the device.
#pragma once

#include "args/block_linear.h"
#include "kernels/cuda/carver.h"
#include "math/host_device.h"

namespace equigeo {

constexpr int kTileCopies = 32;  // of a segment of the output that a block of threads makes at once
constexpr int kTileVectors = 64;  // rows times components, or copies of the input, of the same

// What a plan is made for: the map, the gradient of its input, or that of its weights.
enum class LinearUse { kMap, kInput, kWeights };

// Copies [copy, copy + kTileCopies) of what block `block` leads to, from all blocks that lead
// there; of a gradient of weights rows [first, first + kTileVectors) too, from this block alone.
struct LinearTile {
  int block, copy, first;
};

template <class T>
struct LinearPlan {
  LinearUse use;
  LinearBlocks<T> blocks;
  int* next;         // (blocks,) the next one that leads to the same segment, or -1
  int* count;        // (blocks,) of tiles that begin with each
  LinearTile* tile;  // as many as `tiles`, at most `most`
  int* tiles;
  int64_t most;
  int* made;          // whether the plan has been made; null if nothing is kept
  LinearBlock* last;  // (blocks,) of which
};

template <class T>
struct LinearPlans {
  LinearPlan<T> map, input, weights;
};

// The block as the map reads it: the gradient of the input leads from the output to the input.
template <class T>
EQUIGEO_HOST_DEVICE LinearBlock block_of(const LinearPlan<T>& plan, int64_t b) {
  const LinearBlock block = plan.blocks.block[b];
  if (plan.use != LinearUse::kInput) {
    return block;
  }
  return {block.out, block.mul_out, block.in, block.mul, block.d, block.weight};
}

template <class T>
LinearPlan<T> cut_linear_plan(const LinearBlocks<T>& blocks, LinearUse use, Carver& memory) {
  LinearPlan<T> plan{};
  plan.use = use;
  plan.blocks = blocks;
  plan.next = memory.take<int>(blocks.count);
  plan.count = memory.take<int>(blocks.count);
  // n copies make at most n / 32 + 1 tiles; a matrix of m x n, which has m + n <= m n + 1, at most
  // (m / 64 + 1) (n / 32 + 1) < m n / 16 + 2.
  const int64_t dim = use == LinearUse::kMap ? blocks.dim_out : blocks.dim_in;
  plan.most = use == LinearUse::kWeights ? blocks.dim_weight / 16 + 2 * blocks.count
                                         : dim / kTileCopies + blocks.count;
  plan.tile = memory.take<LinearTile>(plan.most);
  plan.tiles = memory.take<int>(1);
  plan.made = memory.take<int>(1);
  plan.last = memory.take<LinearBlock>(blocks.count);
  return plan;
}

// Plans in the memory that is kept for the blocks, or in scratch memory; not made yet.
template <class T>
LinearPlans<T> cut_linear_plans(const LinearBlocks<T>& blocks, Carver& memory) {
  Carver kept(blocks.kept);
  Carver& from = blocks.kept == nullptr ? memory : kept;
  LinearPlans<T> plans{
      cut_linear_plan(blocks, LinearUse::kMap, from),
      cut_linear_plan(blocks, LinearUse::kInput, from),
      cut_linear_plan(blocks, LinearUse::kWeights, from)};
  if (blocks.kept == nullptr) {
    plans.map.made = plans.input.made = plans.weights.made = nullptr;
  }
  return plans;
}

// Of ops with blocks.
template <template <class> class Op, class S>
auto size_to_keep(const Op<S>& op) -> decltype(op.blocks.kept, int64_t()) {
  Carver memory(nullptr);
  cut_linear_plans(op.blocks, memory);
  return memory.used();
}

// Queue the making of a plan on a stream, unless it is kept; null, or what went wrong. Blocks that
// leave their rows, or share a part of what they lead to, stop the kernel with a trap: they are on
// the device, where the host cannot read them without waiting.
template <class T>
const char* make_linear_plan(const LinearPlan<T>& plan, void* stream);

}  // namespace equigeo
