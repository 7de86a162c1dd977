// Convolutions of path tables that are known when this is compiled. A block makes a part of one row
// of the output, all of which its lanes hold in registers: weights of an edge are read once, x once
// for every part, and every size is a constant.
#pragma once

#include "kernels/cuda/known_targets.cuh"
#include "kernels/cuda/staged_matrices.cuh"
#include "kernels/cuda/sum_products.h"

namespace equigeo {
namespace {

// Bytes of shared memory for matrices of all blocks of a multiprocessor, of 227 kB on sm_90, where
// a block has 48 kB at most.
#ifdef EQUIGEO_SMALL_CHUNKS
constexpr int kMostShared = 20000;
#else
constexpr int kMostShared = 220000;
#endif

template <const KnownTable& kTable, class T>
struct alignas(16) TargetMemory {
  using Size = Sizes<kTable>;
  static constexpr int edges_of_batch() {
    const int bytes = (Size::kBlocks < 6 ? 6 : Size::kBlocks) * Size::kMatrices * sizeof(T);
    int edges = kBatch;
    while (edges > 1 && edges * bytes > kMostShared) {
      edges /= 2;
    }
    return edges;
  }
  static constexpr int kEdges = edges_of_batch();

  T matrices[kEdges * Size::kMatrices];
  T second[kEdges][kTable.second];
  float rows[kTable.warps][kPutNumbers<Size::kRows, 1>];
  TargetBatch batch;
  int path[Size::kPaths], before_matrix[Size::kPaths];
  WeightPlaces<kTable> weights;
};

// The paths of a part, for all threads of the block behind the next barrier.
template <const KnownTable& kTable, int Part, class T>
__device__ __forceinline__ void stage_paths(
    const Plan<float>& plan, TargetMemory<kTable, T>& memory) {
  for_paths_of<kTable, Part>([&](auto p) {
    constexpr int kPath = decltype(p)::value, kAt = kTable.paths_before(Part, kPath);
    constexpr int kBefore = kTable.matrices_before(Part, kPath);
    if (threadIdx.y == 0 && threadIdx.x == kAt % kWarp) {
      memory.path[kAt] = kPath;
      memory.before_matrix[kAt] = kBefore;
    }
  });
  memory.weights.template stage<Part>(plan);
}

// The matrices of a batch of edges, once for all warps: each makes those of some paths.
template <const KnownTable& kTable, int Part, class T>
__device__ __forceinline__ void make_matrices(
    const SumProducts<float>& op, int count, TargetMemory<kTable, T>& memory) {
  using Size = PartSizes<kTable, Part>;
  constexpr int kNumbers = Size::kMatrices;
  const int thread = threadIdx.y * kWarp + threadIdx.x;
  constexpr int kEdges = TargetMemory<kTable, T>::kEdges;
  T* matrices = memory.matrices;
#pragma unroll 1
  for (int n = thread; n < count * kNumbers; n += Sizes<kTable>::kThreads) {
    matrices[n] = T{};
  }
  stage_second<kTable, T>(op.y, op.tangents.y, memory.batch, count, memory.second);
  __syncthreads();
  const Runs<float>& runs = op.plan.by_place;
#pragma unroll 1
  for (int p = threadIdx.y; p < Size::kPaths; p += kTable.warps) {
    const PlannedPath& path = op.plan.path[memory.path[p]];
    const int number = runs.count[path.table];
#pragma unroll 1
    for (int run = threadIdx.x; run < number; run += kWarp) {
      T sum[kEdges] = {};
      for_terms(runs, path, run, [&](float value, int j) {
        const T* second = &memory.second[0][path.y + j];
#pragma unroll
        for (int b = 0; b < kEdges; ++b) {
          sum[b] += value * second[b * kTable.second];
        }
      });
      const int key = runs.key[path.terms + run];
      T* to = matrices + memory.before_matrix[p] + key / kColumns * path.d1 + key % kColumns;
#pragma unroll
      for (int b = 0; b < kEdges; ++b) {
        if (b < count) {
          to[b * kNumbers] = sum[b];
        }
      }
    }
  }
  __syncthreads();
}

// sum_k += sum_i M_ki (w x_i) for one path of one edge, of all strands.
template <const KnownTable& kTable, int Part, int P, class T, int N, int D1, int Size>
__device__ __forceinline__ void add_known_path(
    const T* matrices, const T (&x)[N][D1], const T (&weight)[N], float (&sum)[Size]) {
  constexpr int kFirst = kTable.sums_before(Part, P), kStep = PartSizes<kTable, Part>::kNumbers;
  constexpr int kNumbers = D1 * kTable.path[P].d3();
  constexpr int kParts = kWidth<T, float>, kWord = 4 / kParts;  // of a number, numbers of a word
  T weighted[N][D1];
#pragma unroll
  for (int m = 0; m < N; ++m) {
#pragma unroll
    for (int i = 0; i < D1; ++i) {
      weighted[m][i] = weight[m] * x[m][i];
    }
  }
#pragma unroll
  for (int n = 0; n < kNumbers; n += kWord) {
    const T* from = matrices + kTable.matrices_before(Part, P) + n;
    const float4 word = *reinterpret_cast<const float4*>(from);
    const float parts[4] = {word.x, word.y, word.z, word.w};
#pragma unroll
    for (int k = n; k < n + kWord; ++k) {
      if (k < kNumbers) {
        const T number = Memory<T, float>::load(parts + (k - n) * kParts);
#pragma unroll
        for (int m = 0; m < N; ++m) {
          add_last_part(sum[m * kStep + kFirst + k / D1], number, weighted[m][k % D1]);
        }
      }
    }
  }
}

// One edge, segment by segment of x: all numbers of its rows are read once.
template <const KnownTable& kTable, int Part, class T, int Size>
__device__ __forceinline__ void add_edge(
    const EdgeOperands<T>& from,
    int channel,
    const WeightPlaces<kTable>& weights,
    const T* matrices,
    float (&sum)[Size]) {
  for_segments_of<kTable, Part>([&](auto segment) {
    constexpr int kSegment = decltype(segment)::value;
    using Lane = Strands<kTable, Part, kSegment>;
    constexpr int N = Lane::kCount, D1 = kTable.segment[kSegment].d();
    constexpr int kBefore = kTable.before_x(kSegment);
    const Lane lane{channel};
    T x[N][D1];
    load_strands<kBefore>(lane, from.x, x);
    for_paths_of<kTable, Part, kSegment>([&](auto p) {
      constexpr int kPath = decltype(p)::value;
      const Operand<T> row = from.weight.behind(weights.template of<Part, kPath>());
      T weight[N];
#pragma unroll
      for (int n = 0; n < N; ++n) {
        weight[n] = row.at(lane.behind(n));
      }
      add_known_path<kTable, Part, kPath>(matrices, x, weight, sum);
    });
  });
}

// A part of all targets of this block.
template <const KnownTable& kTable, int Part, class T>
__device__ __forceinline__ void sum_part(
    const SumProducts<float>& op, int slice, TargetMemory<kTable, T>& memory) {
  using Size = PartSizes<kTable, Part>;
  const int channel = first_channel<kTable, Part>(slice);
  stage_paths<kTable, Part>(op.plan, memory);
#pragma unroll 1
  for (int64_t target = blockIdx.x; target < op.edges.rows; target += gridDim.x) {
    float sum[Size::kSums] = {};
    begin_target(op.edges, target, {0, op.edges.edges}, memory.batch);
#pragma unroll 1
    while (const int count = next_batch<TargetMemory<kTable, T>::kEdges>(
               op.edges, memory.batch,
               [&](const EdgeRows& edge, int64_t) { return places_of<kTable>(op, edge); })) {
      make_matrices<kTable, Part>(op, count, memory);
#pragma unroll 1
      for (int b = 0; b < count; ++b) {
        const EdgeOperands<T> from = operands_of<T>(memory.batch.edges[b], channel);
        add_edge<kTable, Part>(
            from, channel, memory.weights, memory.matrices + b * Size::kMatrices, sum);
      }
    }
    float* row = op.out + target * op.plan.dim_out;
    for_paths_of<kTable, Part>([&](auto p) {
      constexpr int kPath = decltype(p)::value, kMul = kTable.mul(kPath);
      constexpr int D3 = kTable.path[kPath].d3(), kBefore = kTable.sums_before(Part, kPath);
      for_constants<Size::kStrands>([&](auto n) {
        constexpr int kStrand = decltype(n)::value;
        put_segment<kMul, kStrand * Size::kNumbers + kBefore, D3>(
            op.plan.ir_mul, sum, true, channel - threadIdx.x + kStrand * Sizes<kTable>::kThreads,
            row + kTable.before_out(kPath), memory.rows[threadIdx.y]);
      });
    });
  }
}

template <const KnownTable& kTable, class T>
__global__ void __launch_bounds__(Sizes<kTable>::kThreads, Sizes<kTable>::kBlocks)
    sum_known(const __grid_constant__ SumProducts<float> op) {
  if (!is_known(op.plan)) {
    return;
  }
  TargetMemory<kTable, T>& memory = static_shared<TargetMemory<kTable, T>>();
  for_part<kTable>(
      [&](auto part, int slice) { sum_part<kTable, decltype(part)::value>(op, slice, memory); });
}

}  // namespace
}  // namespace equigeo
