// Convolutions of path tables that are known when this is compiled. A block makes one row of the
// output, all of which its lanes hold in registers: each edge is read once, and every offset in its
// rows is a constant. A warp takes 32 channels of all segments.
#pragma once

#include "kernels/cuda/channels.cuh"
#include "kernels/cuda/known_tables.h"
#include "kernels/cuda/staged_matrices.cuh"
#include "kernels/cuda/sum_products.h"

namespace equigeo {
namespace {

// Numbers of a known table that kernels need as constants.
template <const KnownTable& kTable>
struct Sizes {
  static constexpr int kWarps = kTable.mul / kWarp;
  static constexpr int kX = kTable.before_x(kTable.segments);
  static constexpr int kOut = kTable.before_out(kTable.paths);
  static constexpr int kMatrices = kTable.before_matrix(kTable.paths);
  static_assert(kTable.mul % kWarp == 0 && kOut <= 80);
};

template <const KnownTable& kTable>
struct alignas(16) TargetMemory {
  using Size = Sizes<kTable>;
  float matrices[kBatch][Size::kMatrices];
  float second[kBatch][kTable.second];
  float rows[Size::kWarps][kPutNumbers<kMostRows, 1>];
  EdgeRows edges[kBatch];
  EdgeRange left;
  int before_matrix[kTable.paths];
};

// visit(p) for every path, as a constant.
template <const KnownTable& kTable, int P = 0, class Visit>
__device__ __forceinline__ void for_known_paths(const Visit& visit) {
  if constexpr (P < kTable.paths) {
    visit(std::integral_constant<int, P>());
    for_known_paths<kTable, P + 1>(visit);
  }
}

// The matrices of a batch of edges, once for all warps: each makes those of some paths.
template <const KnownTable& kTable>
__device__ __forceinline__ void make_matrices(
    const SumProducts<float>& op, int count, TargetMemory<kTable>& memory) {
  constexpr int kNumbers = Sizes<kTable>::kMatrices;
  const int thread = threadIdx.y * kWarp + threadIdx.x;
  float* matrices = &memory.matrices[0][0];
#pragma unroll 1
  for (int n = thread; n < count * kNumbers; n += kTable.mul) {
    matrices[n] = 0;
  }
#pragma unroll 1
  for (int n = thread; n < kBatch * kTable.second; n += kTable.mul) {
    const int b = n / kTable.second;
    const float* from =
        op.y + memory.edges[b < count ? b : 0].own * kTable.second + n % kTable.second;
    memory.second[b][n % kTable.second] = b < count ? load(from) : 0;
  }
  __syncthreads();
  const Runs<float>& runs = op.plan.by_place;
#pragma unroll 1
  for (int p = threadIdx.y; p < kTable.paths; p += Sizes<kTable>::kWarps) {
    const PlannedPath& path = op.plan.path[p];
    const int number = runs.count[path.table];
#pragma unroll 1
    for (int run = threadIdx.x; run < number; run += kWarp) {
      float sum[kBatch] = {};
      const int length = runs.length[path.terms + run];
#pragma unroll 1
      for (int m = 0; m < length; ++m) {
        const int term = path.terms + runs.start[path.terms + m] + run;
        const float value = runs.value[term];
        const float* second = &memory.second[0][path.y + runs.at[term]];
#pragma unroll
        for (int b = 0; b < kBatch; ++b) {
          sum[b] += value * second[b * kTable.second];
        }
      }
      const int key = runs.key[path.terms + run];
      float* to = matrices + memory.before_matrix[p] + key / kColumns * path.d1 + key % kColumns;
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
template <const KnownTable& kTable, int P, int D1>
__device__ __forceinline__ void add_known_path(
    const float* matrices, const float (&x)[D1], float weight, float (&sum)[Sizes<kTable>::kOut]) {
  constexpr int kFirst = kTable.before_out(P), kNumbers = D1 * kTable.path[P].d3;
  float weighted[D1];
#pragma unroll
  for (int i = 0; i < D1; ++i) {
    weighted[i] = weight * x[i];
  }
#pragma unroll
  for (int n = 0; n < kNumbers; n += 4) {
    const float* from = matrices + kTable.before_matrix(P) + n;
    const float4 word = *reinterpret_cast<const float4*>(from);
    const float number[4] = {word.x, word.y, word.z, word.w};
#pragma unroll
    for (int m = 0; m < 4; ++m) {
      if (n + m < kNumbers) {
        sum[kFirst + (n + m) / D1] += number[m] * weighted[(n + m) % D1];
      }
    }
  }
}

// One edge, segment by segment of x: all numbers of its rows are read once.
template <const KnownTable& kTable, int Segment = 0>
__device__ __forceinline__ void add_edge(
    const float* row,
    const float* weights,
    const float* matrices,
    float (&sum)[Sizes<kTable>::kOut]) {
  if constexpr (Segment < kTable.segments) {
    constexpr int D1 = kTable.d1[Segment], kBefore = kTable.before_x(Segment);
    float x[D1];
#pragma unroll
    for (int i = 0; i < D1; ++i) {
      x[i] = load(row + (kBefore + i) * kTable.mul);
    }
    for_known_paths<kTable>([&](auto p) {
      constexpr int kPath = decltype(p)::value;
      if constexpr (kTable.path[kPath].x == Segment) {
        const float weight = load(weights + kPath * kTable.mul);
        add_known_path<kTable, kPath>(matrices, x, weight, sum);
      }
    });
    add_edge<kTable, Segment + 1>(row, weights, matrices, sum);
  }
}

// A finished row of the output.
template <const KnownTable& kTable>
__device__ __forceinline__ void put_target(
    const SumProducts<float>& op,
    int64_t row,
    const float (&sum)[Sizes<kTable>::kOut],
    float* shared) {
  for_known_paths<kTable>([&](auto p) {
    constexpr int kPath = decltype(p)::value, d3 = kTable.path[kPath].d3;
    constexpr int out = kTable.before_out(kPath), begin = out * kTable.mul;
    const int channel = threadIdx.y * kWarp;
    const Tile tile{kPath, kPath + 1, begin, kTable.mul, d3, 0, d3, channel};
    float values[d3][1];
#pragma unroll
    for (int k = 0; k < d3; ++k) {
      values[k][0] = sum[out + k];
    }
    float* to = op.out + row * op.plan.dim_out + begin;
    put_rows(tile, op.plan.ir_mul, values, Target<float>{to, nullptr, true, true}, shared);
  });
}

// Blocks that a multiprocessor must have registers for: 168 of a lane hold 71 sums and an edge
// whose numbers are all asked for at once, 128 hold fewer.
template <const KnownTable& kTable>
constexpr int kTargets = (Sizes<kTable>::kOut > 64 ? 12 : 16) / Sizes<kTable>::kWarps;

template <const KnownTable& kTable>
__global__ void __launch_bounds__(kTable.mul, kTargets<kTable>)
    sum_targets(const __grid_constant__ SumProducts<float> op) {
  if (!op.plan.totals->known) {
    return;
  }
  TargetMemory<kTable>& memory = static_shared<TargetMemory<kTable>>();
  const int channel = threadIdx.y * kWarp + threadIdx.x;
  for_known_paths<kTable>([&](auto p) {
    constexpr int kPath = decltype(p)::value, before = kTable.before_matrix(kPath);
    if (threadIdx.y == 0 && threadIdx.x == kPath) {
      memory.before_matrix[kPath] = before;
    }
  });
  const bool leads = threadIdx.y == 0 && threadIdx.x == 0;
#pragma unroll 1
  for (int64_t target = blockIdx.x; target < op.edges.rows; target += gridDim.x) {
    float sum[Sizes<kTable>::kOut] = {};
    __syncthreads();  // what was there has been read
    if (leads) {
      memory.left = positions_of(op.edges, target);
    }
#pragma unroll 1
    while (true) {
      __syncthreads();
      const EdgeRange left = memory.left;  // not held in registers over the edges of a batch
      if (left.begin >= left.end) {
        break;
      }
      const int64_t all = left.end - left.begin;
      const int count = static_cast<int>(all < kBatch ? all : kBatch);
      if (threadIdx.y == 0 && static_cast<int>(threadIdx.x) < count) {
        memory.edges[threadIdx.x] = rows_of_edge(op.edges, left.begin + threadIdx.x);
      }
      __syncthreads();
      make_matrices(op, count, memory);
      if (leads) {
        memory.left.begin += kBatch;
      }
#pragma unroll 1
      for (int b = 0; b < count; ++b) {
        const EdgeRows& edge = memory.edges[b];
        const float* row = op.x + edge.other * (Sizes<kTable>::kX * kTable.mul) + channel;
        const float* weights = op.weight + edge.own * op.weight_stride + channel;
        add_edge<kTable>(row, weights, memory.matrices[b], sum);
      }
    }
    put_target<kTable>(op, target, sum, memory.rows[threadIdx.y]);
  }
}

template <const KnownTable& kTable>
void launch_targets(const SumProducts<float>& op, void* stream) {
  const dim3 block(kWarp, Sizes<kTable>::kWarps);
  launch_kernel(sum_targets<kTable>, grid_of(op.edges.rows), block, 0, stream, op);
}

}  // namespace
}  // namespace equigeo
