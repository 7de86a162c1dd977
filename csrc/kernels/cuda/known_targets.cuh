// Edges of a target, batch by batch, for kernels of path tables that are known when this is
// compiled. A block takes a target, and a warp 32 channels of all segments, which its lanes hold in
// registers.
//
// Numbers of operands are T: floats, or dual numbers, whose slopes are tangents. Results are sums
// of products, or how these change along the tangents.
#pragma once

#include <type_traits>

#include "kernels/cuda/channels.cuh"
#include "kernels/cuda/edge_batch.cuh"
#include "kernels/cuda/known_tables.h"
#include "kernels/cuda/plan.h"
#include "math/dual.h"

namespace equigeo {
namespace {

// Numbers of a known table that kernels need as constants.
template <const KnownTable& kTable>
struct Sizes {
  static constexpr int kWarps = kTable.mul / kWarp;
  static constexpr int kX = kTable.before_x(kTable.segments);
  static constexpr int kOut = kTable.before_out(kTable.paths);
  static constexpr int kMatrices = kTable.before_matrix(kTable.paths);
  static constexpr int kTerms = kTable.before_terms(kTable.paths);
  // Blocks that a multiprocessor must have registers for: with 168 per lane, 71 numbers of a target
  // and all numbers of an edge fit, which are loaded at once; with 128, fewer.
  static constexpr int kBlocks = (kOut > 64 ? 12 : 16) / kWarps;
  static_assert(kTable.mul % kWarp == 0 && kOut <= 80);
};

// visit(n) for every n < Count, as a constant.
template <int Count, int N = 0, class Visit>
__device__ __forceinline__ void for_constants(const Visit& visit) {
  if constexpr (N < Count) {
    visit(std::integral_constant<int, N>());
    for_constants<Count, N + 1>(visit);
  }
}

// Call run(n, zero) with the index of a known table, as a constant, and a zero of the numbers that
// it is for, with tangents or without; false where the table is null.
template <int N = 0, class Run>
bool for_known(const KnownTable* known, bool tangents, const Run& run) {
  if constexpr (N < kNumKnown) {
    if (known != kKnownTables[N]) {
      return for_known<N + 1>(known, tangents, run);
    }
    if (tangents) {
      run(std::integral_constant<int, N>(), Dual<float>{});
    } else {
      run(std::integral_constant<int, N>(), float{});
    }
    return true;
  }
  return false;
}

// Whether a table with the sizes of a known one is that.
template <class T>
__device__ __forceinline__ bool is_known(const Plan<T>& plan) {
  bool known = true;
#pragma unroll 1
  for (int64_t p = 0; p < plan.count; ++p) {
    known = known && plan.known[p] != 0;
  }
  return known;
}

// Whether a thread is the first one of its block.
__device__ inline bool is_first() { return threadIdx.y == 0 && threadIdx.x == 0; }

// Where the numbers of an operand are for a lane. Slopes are zero where there is no tangent.
template <class T>
struct Operand {
  const float *value, *slope;
  bool moves;

  __device__ __forceinline__
  Operand(const float* values, const float* tangent, int64_t n = 0, int64_t tangent_n = 0)
      : value(values + n),
        slope(tangent == nullptr ? nullptr : tangent + tangent_n),
        moves(tangent != nullptr) {}

  __device__ __forceinline__ T at(int64_t n) const {
    if constexpr (std::is_same_v<T, float>) {
      return load(value + n);
    } else {
      return {load(value + n), moves ? load(slope + n) : 0};
    }
  }
};

// The edges of a batch, from position `begin` on, and positions that are left. They take no
// registers.
struct TargetBatch {
  EdgeRows edges[kBatch];
  EdgeRange left;
  int64_t target, begin;
};

// The positions of a target within some, for all threads of the block.
__device__ __forceinline__ void begin_target(
    const EdgeList& list, int64_t target, const EdgeRange& within, TargetBatch& batch) {
  __syncthreads();  // what was there has been read
  if (is_first()) {
    batch.target = target;
    const EdgeRange all = positions_of(list, target);
    batch.left = {
        all.begin < within.begin ? within.begin : all.begin,
        all.end < within.end ? all.end : within.end};
  }
  __syncthreads();
}

// The next batch, for all threads of the block; returns how many edges it has.
__device__ __forceinline__ int next_batch(const EdgeList& list, TargetBatch& batch) {
  __syncthreads();  // what was there has been read
  const EdgeRange left = batch.left;
  const int64_t all = left.begin < left.end ? left.end - left.begin : 0;
  const int count = static_cast<int>(all < kBatch ? all : kBatch);
  if (threadIdx.y == 0 && static_cast<int>(threadIdx.x) < count) {
    batch.edges[threadIdx.x] = rows_of_edge(list, left.begin + threadIdx.x);
  }
  __syncthreads();
  if (is_first()) {
    batch.begin = left.begin;
    batch.left.begin = left.begin + count;
  }
  return count;
}

// Second inputs of a batch of edges, zero where there are none, for other threads behind the next
// barrier.
template <const KnownTable& kTable, class T>
__device__ __forceinline__ void stage_second(
    const Operand<T>& y, const TargetBatch& batch, int count, T (&to)[kBatch][kTable.second]) {
  const int thread = threadIdx.y * kWarp + threadIdx.x;
#pragma unroll 1
  for (int n = thread; n < kBatch * kTable.second; n += kTable.mul) {
    const int b = n / kTable.second, j = n % kTable.second;
    to[b][j] = b < count ? y.at(batch.edges[b].own * kTable.second + j) : T{};
  }
}

// What an edge reads of its source, and its weights.
template <class T>
struct EdgeOperands {
  Operand<T> x, weight;
};

template <const KnownTable& kTable, class T, class Op>
__device__ __forceinline__ EdgeOperands<T> operands_of(const Op& op, const EdgeRows& edge) {
  const int channel = threadIdx.y * kWarp + threadIdx.x;
  const int64_t x = edge.other * (Sizes<kTable>::kX * kTable.mul) + channel;
  const int64_t weight = edge.own * (kTable.paths * kTable.mul) + channel;
  return {
      Operand<T>(op.x, op.tangents.x, x, x),
      Operand<T>(op.weight, op.tangents.weight, edge.own * op.weight_stride + channel, weight)};
}

// The sums of a lane for a segment of D components, behind Before others, to a row; added to what
// is there unless they are the first ones.
template <const KnownTable& kTable, int Before, int D, int Size>
__device__ __forceinline__ void put_segment(
    bool ir_mul, const float (&sum)[Size], bool first, float* row, float* shared) {
  constexpr int kBegin = Before * kTable.mul;
  const int channel = threadIdx.y * kWarp;
  const Tile tile{0, 0, kBegin, kTable.mul, D, 0, D, channel};
  float values[D][1];
#pragma unroll
  for (int k = 0; k < D; ++k) {
    values[k][0] = sum[Before + k];
  }
  put_rows(tile, ir_mul, values, Target<float>{row + kBegin, row + kBegin, first, true}, shared);
}

}  // namespace
}  // namespace equigeo
