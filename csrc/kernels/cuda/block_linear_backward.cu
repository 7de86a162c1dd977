// The gradient of the input is a map by the transposed matrices. That of the weights of a block is
// a product of matrices over all rows and components: where these are many, parts of them are
// summed side by side, and the sums added in order.
#include "args/block_linear.h"

#include "kernels/cuda/launch.h"
#include "kernels/cuda/linear_map.h"
#include "kernels/cuda/linear_tiles.cuh"

namespace equigeo {
namespace {

template <class S>
struct WeightGradients {
  using T = Compute<S>;
  LinearPlan<T> plan;
  const S* in;
  const S* grad;
  int64_t groups, group;
  int64_t parts, part;  // of the rows of a group, and the rows of each
  T* sums;              // (groups, parts, dim_weight), not where no block has weights
  S* grad_weight;
};

// The gradient of a tile of weights from some rows of a group.
template <class S, class T>
__device__ __forceinline__ void sum_tile(
    const WeightGradients<S>& op,
    const LinearBlock& block,
    const LinearTile& tile,
    int64_t first,
    int64_t rows,
    LinearMemory<T>& memory,
    TileSum<T>& sum) {
  const int d = static_cast<int>(block.d);
  const LinearBlocks<T>& blocks = op.plan.blocks;
  const LinearSegment in{blocks.dim_in, block.in, static_cast<int>(block.mul), d, blocks.ir_mul};
  const LinearSegment out{
      blocks.dim_out, block.out, static_cast<int>(block.mul_out), d, blocks.ir_mul};
  Spots<kDepth * kTileVectors, kTileVectors> ins{};
  Spots<kDepth * kTileCopies, kTileCopies> outs{};
  const int64_t tiles = vector_tiles(rows, d, kDepth);
#pragma unroll 1
  for (int64_t n = 0; n < tiles; ++n) {
    const Vectors vectors = vectors_of(n, rows, d, kDepth);
    ins.find(vectors, in);
    outs.find(vectors, out);
    __syncthreads();  // what was there has been read
    ins.stage(op.in + first * in.dim, in, tile.first, memory.first(), [](const Spot& spot) {
      return spot.vector * kRowA + spot.copy;
    });
    outs.stage(op.grad + first * out.dim, out, tile.copy, memory.second(), [](const Spot& spot) {
      return spot.vector * kRowB + spot.copy;
    });
    __syncthreads();
    multiply_tile(memory, sum);
  }
}

template <class S>
__global__ void __launch_bounds__(kTileThreads, kResident)
    sum_weight_gradients(WeightGradients<S> op) {
  using T = Compute<S>;
  LinearMemory<T>& memory = linear_memory<T>();
  const int tiles = *op.plan.tiles;
#pragma unroll 1
  for (int64_t t = blockIdx.y; t < tiles; t += gridDim.y) {
    const LinearTile tile = op.plan.tile[t];
    const LinearBlock block = block_of(op.plan, tile.block);
    const T factor = op.plan.blocks.factor[tile.block];
#pragma unroll 1
    for (int64_t n = blockIdx.x; n < op.groups * op.parts; n += gridDim.x) {
      const int64_t begin = n % op.parts * op.part, left = op.group - begin;
      const int64_t first = n / op.parts * op.group + begin;
      TileSum<T> sum = {};
      sum_tile(op, block, tile, first, left < op.part ? left : op.part, memory, sum);
      stage_result(sum, memory);
      T* to = op.sums + n * op.plan.blocks.dim_weight + block.weight;
#pragma unroll 1
      for (int k = threadIdx.x; k < kTileVectors * kTileCopies; k += kTileThreads) {
        const int64_t u = tile.first + k / kTileCopies, w = tile.copy + k % kTileCopies;
        if (u < block.mul && w < block.mul_out) {
          const T value = memory.result()[k / kTileCopies * kRowB + k % kTileCopies];
          to[u * block.mul_out + w] = factor * value;
        }
      }
    }
  }
}

template <class T>
__device__ bool is_weight(const LinearBlocks<T>& blocks, int64_t weight) {
  for (int64_t b = 0; b < blocks.count; ++b) {
    const LinearBlock& block = blocks.block[b];
    if (block.weight <= weight && weight < block.weight + block.mul * block.mul_out) {
      return true;
    }
  }
  return false;
}

// The sums of all parts, in order; zero where no block has weights.
template <class S>
__global__ void add_parts(WeightGradients<S> op) {
  using T = Compute<S>;
  const int64_t dim = op.plan.blocks.dim_weight;
  for (int64_t n = first_item(); n < op.groups * dim; n += item_stride()) {
    const T* from = op.sums + n / dim * op.parts * dim + n % dim;
    T sum = 0;
    if (is_weight(op.plan.blocks, n % dim)) {
      for (int64_t part = 0; part < op.parts; ++part) {
        sum += from[part * dim];
      }
    }
    store(op.grad_weight + n, sum);
  }
}

template <class S>
struct LinearScratch {
  LinearPlans<Compute<S>> plans;
  WeightGradients<S> gradients;

  LinearScratch(const BlockLinearBackward<S>& op, Carver& memory)
      : plans(cut_linear_plans(op.blocks, memory)) {
    // Enough parts for a large GPU, of as many rows as are worth the sums, and of no more than lose
    // few digits when they are added one by one. The problem alone decides, so that bits are the
    // same.
    constexpr int64_t kEnough = 64, kLeast = 256, kMost = 4096;
    const int64_t group = op.rows / op.groups;
    const int64_t wanted = group * op.groups / kEnough;
    const int64_t part = wanted < kLeast ? kLeast : wanted > kMost ? kMost : wanted;
    const int64_t parts = group < 1 ? 1 : (group + part - 1) / part;
    gradients = {plans.weights, op.x, op.grad, op.groups,     group,
                 parts,         part, nullptr, op.grad_weight};
    gradients.sums = memory.take<Compute<S>>(op.groups * parts * op.blocks.dim_weight);
  }
};

template <class S>
const char* sum_gradients(const WeightGradients<S>& op, void* stream) {
  constexpr int64_t kMostAcross = 1 << 15;  // of a grid; kernels stride over what is beyond
  const int64_t across = op.plan.most < kMostAcross ? op.plan.most : kMostAcross;
  const int64_t items = op.groups * op.parts;
  if (across > 0) {
    const dim3 grid(grid_of(items), static_cast<unsigned>(across));
    launch_kernel(sum_weight_gradients<S>, grid, kTileThreads, 0, stream, op);
  }
  launch_threads(add_parts<S>, op.groups * op.plan.blocks.dim_weight, stream, op);
  return launch_error();
}

template <class S>
const char* run(const BlockLinearBackward<S>& op, void* memory, void* stream) {
  Carver carver(memory);
  const LinearScratch<S> scratch(op, carver);
  const LinearMap<S> map{scratch.plans.input, op.grad,           op.weight,        op.groups,
                         op.rows / op.groups, op.blocks.dim_out, op.blocks.dim_in, op.grad_x};
  const char* error = nullptr;
  if (op.grad_x != nullptr) {
    error = make_linear_plan(scratch.plans.input, stream);
    error = error == nullptr ? map_rows(map, stream) : error;
  }
  if (op.grad_weight != nullptr && error == nullptr) {
    error = make_linear_plan(scratch.plans.weights, stream);
    error = error == nullptr ? sum_gradients(scratch.gradients, stream) : error;
  }
  return error;
}

template <class S>
int64_t size_of(const BlockLinearBackward<S>& op) {
  Carver memory(nullptr);
  LinearScratch<S>(op, memory);
  return memory.used();
}

}  // namespace

EQUIGEO_DEFINE_LAUNCHES(BlockLinearBackward)
EQUIGEO_DEFINE_LAUNCH(BlockLinearBackward<Bf16>)

}  // namespace equigeo
