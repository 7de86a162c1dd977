// Convolutions of path tables that are known when this is compiled. A block makes one row of the
// output, all of which its lanes hold in registers: each edge is read once, and every offset in its
// rows is a constant. A warp takes 32 channels of all segments.
#pragma once

#include "kernels/cuda/known_targets.cuh"
#include "kernels/cuda/staged_matrices.cuh"
#include "kernels/cuda/sum_products.h"

namespace equigeo {
namespace {

template <const KnownTable& kTable, class T>
struct alignas(16) TargetMemory {
  using Size = Sizes<kTable>;
  T matrices[kBatch][Size::kMatrices];
  T second[kBatch][kTable.second];
  float rows[Size::kWarps][kPutNumbers<kMostRows, 1>];
  TargetBatch batch;
  int before_matrix[kTable.paths];
};

// The matrices of a batch of edges, once for all warps: each makes those of some paths.
template <const KnownTable& kTable, class T>
__device__ __forceinline__ void make_matrices(
    const SumProducts<float>& op, int count, TargetMemory<kTable, T>& memory) {
  constexpr int kNumbers = Sizes<kTable>::kMatrices;
  const int thread = threadIdx.y * kWarp + threadIdx.x;
  T* matrices = &memory.matrices[0][0];
#pragma unroll 1
  for (int n = thread; n < count * kNumbers; n += kTable.mul) {
    matrices[n] = T{};
  }
  stage_second<kTable>(Operand<T>(op.y, op.tangents.y), memory.batch, count, memory.second);
  __syncthreads();
  const Runs<float>& runs = op.plan.by_place;
#pragma unroll 1
  for (int p = threadIdx.y; p < kTable.paths; p += Sizes<kTable>::kWarps) {
    const PlannedPath& path = op.plan.path[p];
    const int number = runs.count[path.table];
#pragma unroll 1
    for (int run = threadIdx.x; run < number; run += kWarp) {
      T sum[kBatch] = {};
      for_terms(runs, path, run, [&](float value, int j) {
        const T* second = &memory.second[0][path.y + j];
#pragma unroll
        for (int b = 0; b < kBatch; ++b) {
          sum[b] += value * second[b * kTable.second];
        }
      });
      const int key = runs.key[path.terms + run];
      T* to = matrices + memory.before_matrix[p] + key / kColumns * path.d1 + key % kColumns;
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        if (b < count) {
          to[b * kNumbers] = sum[b];
        }
      }
    }
  }
  __syncthreads();
}

// sum_k += sum_i M_ki (w x_i) for one path of one edge.
template <const KnownTable& kTable, int P, class T, int D1>
__device__ __forceinline__ void add_known_path(
    const T* matrices, const T (&x)[D1], T weight, float (&sum)[Sizes<kTable>::kOut]) {
  constexpr int kFirst = kTable.before_out(P), kNumbers = D1 * kTable.path[P].d3();
  constexpr int kParts = kWidth<T, float>, kWord = 4 / kParts;  // of a number, numbers of a word
  T weighted[D1];
#pragma unroll
  for (int i = 0; i < D1; ++i) {
    weighted[i] = weight * x[i];
  }
#pragma unroll
  for (int n = 0; n < kNumbers; n += kWord) {
    const T* from = matrices + kTable.before_matrix(P) + n;
    const float4 word = *reinterpret_cast<const float4*>(from);
    const float parts[4] = {word.x, word.y, word.z, word.w};
#pragma unroll
    for (int m = 0; m < kWord; ++m) {
      if (n + m < kNumbers) {
        const T number = Memory<T, float>::load(parts + m * kParts);
        add_last_part(sum[kFirst + (n + m) / D1], number, weighted[(n + m) % D1]);
      }
    }
  }
}

// One edge, segment by segment of x: all numbers of its rows are read once.
template <const KnownTable& kTable, int Segment = 0, class T>
__device__ __forceinline__ void add_edge(
    const EdgeOperands<T>& from, const T* matrices, float (&sum)[Sizes<kTable>::kOut]) {
  if constexpr (Segment < kTable.segments) {
    constexpr int D1 = 2 * Segment + 1, kBefore = kTable.before_x(Segment);
    T x[D1];
#pragma unroll
    for (int i = 0; i < D1; ++i) {
      x[i] = from.x.at((kBefore + i) * kTable.mul);
    }
    for_constants<kTable.paths>([&](auto p) {
      constexpr int kPath = decltype(p)::value;
      if constexpr (kTable.path[kPath].l1 == Segment) {
        const T weight = from.weight.at(kPath * kTable.mul);
        add_known_path<kTable, kPath>(matrices, x, weight, sum);
      }
    });
    add_edge<kTable, Segment + 1>(from, matrices, sum);
  }
}

template <const KnownTable& kTable, class T>
__global__ void __launch_bounds__(kTable.mul, Sizes<kTable>::kBlocks)
    sum_targets(const __grid_constant__ SumProducts<float> op) {
  if (!is_known(op.plan)) {
    return;
  }
  TargetMemory<kTable, T>& memory = static_shared<TargetMemory<kTable, T>>();
  for_constants<kTable.paths>([&](auto p) {
    constexpr int kPath = decltype(p)::value, before = kTable.before_matrix(kPath);
    if (threadIdx.y == 0 && threadIdx.x == kPath) {
      memory.before_matrix[kPath] = before;
    }
  });
#pragma unroll 1
  for (int64_t target = blockIdx.x; target < op.edges.rows; target += gridDim.x) {
    float sum[Sizes<kTable>::kOut] = {};
    begin_target(op.edges, target, {0, op.edges.edges}, memory.batch);
#pragma unroll 1
    while (const int count = next_batch(op.edges, memory.batch)) {
      make_matrices(op, count, memory);
#pragma unroll 1
      for (int b = 0; b < count; ++b) {
        const EdgeOperands<T> from = operands_of<kTable, T>(op, memory.batch.edges[b]);
        add_edge<kTable>(from, memory.matrices[b], sum);
      }
    }
    for_constants<kTable.paths>([&](auto p) {
      constexpr int kPath = decltype(p)::value;
      constexpr int kBefore = kTable.before_out(kPath), D3 = kTable.path[kPath].d3();
      put_segment<kTable, kBefore, D3>(
          op.plan.ir_mul, sum, true, op.out + target * op.plan.dim_out, memory.rows[threadIdx.y]);
    });
  }
}

template <const KnownTable& kTable, class T>
void launch_targets(const SumProducts<float>& op, void* stream) {
  const dim3 block(kWarp, Sizes<kTable>::kWarps);
  launch_kernel(sum_targets<kTable, T>, grid_of(op.edges.rows), block, 0, stream, op);
}

}  // namespace
}  // namespace equigeo
