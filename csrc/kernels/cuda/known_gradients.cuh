// Gradients of convolutions of path tables that are known when this is compiled, by targets, or how
// they change along tangents of the operands.
//
// A block takes the edges of one target and a part of its row of the gradient, which its lanes hold
// in registers. Gradients of second inputs are contracted in each lane before they are summed over
// lanes. What an edge adds to the gradient of x passes through scratch memory, and is summed in the
// order in which edges leave their source.
#pragma once

#include "kernels/cuda/differentiate_targets.h"
#include "kernels/cuda/known_targets.cuh"
#include "kernels/cuda/sum_lanes.cuh"

namespace equigeo {
namespace {

template <const KnownTable& kTable, class T>
struct alignas(16) GradientMemory {
  float terms[Sizes<kTable>::kTerms];  // coefficients of all paths of a part
  T second[kBatch][kTable.second];
  float grad_second[kBatch][kTable.warps][kTable.second];
  TargetBatch batch;
  WeightPlaces<kTable> weights;
};

// Coefficients in the order in which they are listed.
template <const KnownTable& kTable, int Part>
__device__ __forceinline__ void stage_terms(
    const Plan<float>& plan, float (&to)[Sizes<kTable>::kTerms]) {
  const Runs<float>& runs = plan.by_place;
  const int thread = threadIdx.y * kWarp + threadIdx.x;
  for_paths_of<kTable, Part>([&](auto p) {
    constexpr int kPath = decltype(p)::value, kCount = kTable.path[kPath].terms;
    constexpr int kBefore = kTable.terms_before(Part, kPath);
    constexpr int kBehind = kTable.terms_before(Part, kPath + 1);
#pragma unroll
    for (int m = 0; m < kBehind - kBefore; m += Sizes<kTable>::kThreads) {
      const int n = thread + m;
      if (n < kBehind - kBefore) {
        to[kBefore + n] = n < kCount ? runs.value[runs.place[plan.path[kPath].terms + n]] : 0;
      }
    }
  });
}

// What a lane holds of one edge.
template <const KnownTable& kTable, class T>
struct LaneEdge {
  T second[kTable.second];
  float grad_second[kTable.second];
};

// For one path of one edge: sums over k of coefficients and gradient make a matrix of i and j, from
// which come both gradients of the inputs, and the gradient of the weight; of all strands.
template <const KnownTable& kTable, int Part, int P, class T, int N, int D1, int Size>
__device__ __forceinline__ void differentiate_path(
    const float* terms,
    const float (&grad)[Size],
    const T (&x)[N][D1],
    const T (&weight)[N],
    LaneEdge<kTable, T>& edge,
    float (&grad_x)[N][D1],
    float (&slope)[N]) {
  constexpr KnownPath kPath = kTable.path[P];
  constexpr int kFirst = kTable.sums_before(Part, P), kStep = PartSizes<kTable, Part>::kNumbers;
  constexpr int kTerms = kTable.terms_before(Part, P);
  constexpr int D2 = kPath.d2(), D3 = kPath.d3(), kY = kPath.before_y();
  int n = 0;
  float number[4] = {};
  for_constants<D1>([&](auto component) {
    constexpr int i = decltype(component)::value;
    constexpr KnownCouplings kCouplings = couplings_of(kPath, i);
    T back[N] = {};
#pragma unroll
    for (int j = 0; j < D2; ++j) {
      float sum[N] = {};
      bool any = false;
#pragma unroll
      for (int k = 0; k < D3; ++k) {
        if (kCouplings.has(j, k)) {
          if (n % 4 == 0) {
            const float4 word = *reinterpret_cast<const float4*>(terms + kTerms + n);
            number[0] = word.x;
            number[1] = word.y;
            number[2] = word.z;
            number[3] = word.w;
          }
#pragma unroll
          for (int m = 0; m < N; ++m) {
            sum[m] += number[n % 4] * grad[m * kStep + kFirst + k];
          }
          any = true;
          ++n;
        }
      }
      if (any) {
#pragma unroll
        for (int m = 0; m < N; ++m) {
          back[m] += sum[m] * edge.second[kY + j];
          edge.grad_second[kY + j] += last_part(weight[m] * x[m][i]) * sum[m];
        }
      }
    }
#pragma unroll
    for (int m = 0; m < N; ++m) {
      add_last_part(slope[m], x[m][i], back[m]);
      add_last_part(grad_x[m][i], weight[m], back[m]);
    }
  });
}

// Where the rows of an edge are for a lane, from its first channel on.
template <class T>
struct LaneRows {
  EdgeOperands<T> from;
  float* grad_weight;
  float* const volatile& message;
};

// One edge, segment by segment of x: all numbers of its rows are read once.
template <const KnownTable& kTable, int Part, class T, int Size>
__device__ __forceinline__ void differentiate_segments(
    const LaneRows<T>& rows,
    int channel,
    const WeightPlaces<kTable>& weights,
    const float* terms,
    const float (&grad)[Size],
    LaneEdge<kTable, T>& edge) {
  for_segments_of<kTable, Part>([&](auto segment) {
    constexpr int kSegment = decltype(segment)::value;
    using Lane = Strands<kTable, Part, kSegment>;
    constexpr int N = Lane::kCount, D1 = kTable.segment[kSegment].d();
    const Lane lane{channel};
    T x[N][D1];
    float grad_x[N][D1] = {};
    load_strands<kTable.before_x(kSegment)>(lane, rows.from.x, x);
    for_paths_of<kTable, Part, kSegment>([&](auto p) {
      constexpr int kPath = decltype(p)::value;
      const auto at = weights.template of<Part, kPath>();
      const Operand<T> row = rows.from.weight.behind(at);
      float* grad_weight = move_to(rows.grad_weight, at);
      T weight[N];
      float slope[N] = {};
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const T number = row.at(lane.behind(n));
        weight[n] = lane.has(n) ? number : T{};
      }
      differentiate_path<kTable, Part, kPath>(terms, grad, x, weight, edge, grad_x, slope);
#pragma unroll
      for (int n = 0; n < N; ++n) {
        if (lane.has(n)) {
          store_away(grad_weight + lane.behind(n), slope[n]);
        }
      }
    });
    constexpr int kBefore = kTable.before_message(Part, kSegment);
    float* message = move_to(rows.message, channel);
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int i = 0; i < D1; ++i) {
        if (lane.has(n)) {
          message[kBefore + i * Lane::kMul + lane.behind(n)] = grad_x[n][i];
        }
      }
    }
  });
}

template <const KnownTable& kTable, int Part, class T, int Size>
__device__ __forceinline__ void differentiate_known_edge(
    const LaneRows<T>& rows,
    int channel,
    const WeightPlaces<kTable>& weights,
    const float* terms,
    const float (&grad)[Size],
    const T (&second)[kTable.second],
    float (&grad_second)[kTable.second]) {
  constexpr int kSums = kTable.second <= 4 ? 4 : kTable.second <= 16 ? 16 : 32;
  static_assert(kTable.second <= kSums);
  LaneEdge<kTable, T> edge{};
#pragma unroll
  for (int j = 0; j < kTable.second; ++j) {
    edge.second[j] = second[j];
  }
  differentiate_segments<kTable, Part>(rows, channel, weights, terms, grad, edge);
  float sums[kSums] = {};
#pragma unroll
  for (int j = 0; j < kTable.second; ++j) {
    sums[j] = edge.grad_second[j];
  }
  sum_lanes<kSums>(sums);
  if (threadIdx.x < kTable.second) {
    grad_second[threadIdx.x] = sums[0];
  }
}

// Gradients of second inputs over all warps, in order: those of all parts, or of one block of a
// part, which are summed later.
template <const KnownTable& kTable, class T>
__device__ __forceinline__ void put_second(
    const GradientMemory<kTable, T>& memory, int count, float* grad_y, float* slice) {
  const int thread = threadIdx.y * kWarp + threadIdx.x;
#pragma unroll 1
  for (int n = thread; n < count * kTable.second; n += Sizes<kTable>::kThreads) {
    const int b = n / kTable.second, j = n % kTable.second;
    float sum = 0;
#pragma unroll
    for (int warp = 0; warp < kTable.warps; ++warp) {
      sum += memory.grad_second[b][warp][j];
    }
    if constexpr (kTable.slices() == 1) {
      grad_y[memory.batch.edges[b].own * kTable.second + j] = sum;
    } else {
      slice[n] = sum;
    }
  }
}

// A part of all targets of this block, for the edges at the positions of a chunk.
template <const KnownTable& kTable, int Part, class T>
__device__ __forceinline__ void differentiate_part(
    const DifferentiateProducts<float>& op,
    const TargetGradients& by,
    const EdgeRange& chunk,
    int slice,
    GradientMemory<kTable, T>& memory) {
  using Size = PartSizes<kTable, Part>;
  const int channel = first_channel<kTable, Part>(slice);
  stage_terms<kTable, Part>(by.plan, memory.terms);
  memory.weights.template stage<Part>(by.plan);
#pragma unroll 1
  for (int64_t target = blockIdx.x; target < by.edges.rows;
       target = memory.batch.target + gridDim.x) {
    begin_target(by.edges, target, chunk, memory.batch);
    if (memory.batch.left.begin >= memory.batch.left.end) {
      continue;
    }
    float grad[Size::kSums];
    const float* row = op.grad + target * kTable.before_out(kTable.paths) + channel;
    for_paths_of<kTable, Part>([&](auto p) {
      constexpr int kPath = decltype(p)::value, D3 = kTable.path[kPath].d3();
      using Lane = Strands<kTable, Part, kTable.path[kPath].segment>;
      constexpr int kFirst = kTable.sums_before(Part, kPath);
      const Lane lane{channel};
#pragma unroll
      for (int n = 0; n < Lane::kCount; ++n) {
#pragma unroll
        for (int k = 0; k < D3; ++k) {
          grad[n * Size::kNumbers + kFirst + k] =
              load(row + kTable.before_out(kPath) + k * Lane::kMul + lane.behind(n));
        }
      }
    });
#pragma unroll 1
    while (const int count = next_batch<kBatch>(
               by.edges, memory.batch, [&](const EdgeRows& edge, int64_t position) {
                 EdgePlaces places = places_of<kTable>(op, edge);
                 places.grad_weight =
                     op.grad_weight + edge.own * kTable.before_weight(kTable.paths);
                 places.message = by.messages + (position - chunk.begin) * kTable.messages();
                 return places;
               })) {
      stage_second<kTable, T>(op.y, op.tangents.y, memory.batch, count, memory.second);
      __syncthreads();
      // Downwards takes a register less, without which MACE medium spills on sm_90.
#pragma unroll 1
      for (int b = count; b-- > 0;) {
        const EdgePlaces& edge = memory.batch.edges[b];
        const EdgeOperands<T> from =
            operands_of<T>(edge, channel, op.tangents.x != nullptr, op.tangents.weight != nullptr);
        const LaneRows<T> rows{from, move_to(edge.grad_weight, channel), edge.message};
        differentiate_known_edge<kTable, Part>(
            rows, channel, memory.weights, memory.terms, grad, memory.second[b],
            memory.grad_second[b][threadIdx.y]);
      }
      __syncthreads();
      const int64_t first = blockIdx.y * by.chunk + memory.batch.begin - chunk.begin;
      put_second(memory, count, op.grad_y, by.seconds + first * kTable.second);
    }
  }
}

template <const KnownTable& kTable, class T>
__global__ void __launch_bounds__(Sizes<kTable>::kThreads, Sizes<kTable>::kBlocks)
    differentiate_known(
        const __grid_constant__ DifferentiateProducts<float> op,
        const __grid_constant__ TargetGradients by,
        const __grid_constant__ EdgeRange chunk) {
  if (!is_known(by.plan)) {
    return;
  }
  GradientMemory<kTable, T>& memory = static_shared<GradientMemory<kTable, T>>();
  for_part<kTable>([&](auto part, int slice) {
    differentiate_part<kTable, decltype(part)::value>(op, by, chunk, slice, memory);
  });
}

// Gradients of the second inputs of a chunk of edges, over all blocks of their targets, in order.
template <const KnownTable& kTable>
__global__ void __launch_bounds__(kThreads) sum_seconds(
    const __grid_constant__ DifferentiateProducts<float> op,
    const __grid_constant__ TargetGradients by,
    const __grid_constant__ EdgeRange chunk) {
  if (!is_known(by.plan)) {
    return;
  }
  const int64_t numbers = (chunk.end - chunk.begin) * kTable.second;
#pragma unroll 1
  for (int64_t n = first_item(); n < numbers; n += item_stride()) {
    float sum = 0;
#pragma unroll 1
    for (int slice = 0; slice < kTable.slices(); ++slice) {
      sum += load(by.seconds + slice * by.chunk * kTable.second + n);
    }
    const EdgeRows edge = rows_of_edge(by.edges, chunk.begin + n / kTable.second);
    op.grad_y[edge.own * kTable.second + n % kTable.second] = sum;
  }
}

// Numbers of a lane for its channels of all segments of x before one of them.
template <const KnownTable& kTable>
__device__ constexpr int x_before(int segment) {
  int sum = 0;
  for (int s = 0; s < segment; ++s) {
    sum += units_of(kTable, kTable.segment[s].mul) * kTable.segment[s].d();
  }
  return sum;
}

// visit(segment, unit) for all segments of x and their channels of a lane, as constants.
template <const KnownTable& kTable, class Visit>
__device__ __forceinline__ void for_units(const Visit& visit) {
  for_constants<kTable.segments>([&](auto segment) {
    for_constants<units_of(kTable, kTable.segment[decltype(segment)::value].mul)>(
        [&](auto unit) { visit(segment, unit); });
  });
}

// The rows of the gradient of x, from the messages of a chunk of positions, added to what is there
// unless the chunk is the first one.
template <const KnownTable& kTable>
__global__ void __launch_bounds__(Sizes<kTable>::kThreads) sum_messages(
    const __grid_constant__ DifferentiateProducts<float> op,
    const __grid_constant__ TargetGradients by,
    const __grid_constant__ EdgeRange chunk) {
  if (!is_known(by.plan)) {
    return;
  }
  using Size = Sizes<kTable>;
  float* shared = static_shared<float[kTable.warps][kPutNumbers<Size::kRows, 1>]>()[threadIdx.y];
  const int channel = threadIdx.y * kWarp + threadIdx.x;
#pragma unroll 1
  for (int64_t source = blockIdx.x; source < op.edges.rows; source += gridDim.x) {
    const EdgeRange leaving = positions_of(op.edges, source);
    float sum[x_before<kTable>(kTable.segments)] = {};
#pragma unroll 1
    for (int64_t k = leaving.begin; k < leaving.end; ++k) {
      const int64_t position = look_up(op.edges.position, op.edges.edges, k);
      if (position < chunk.begin || position >= chunk.end) {
        continue;
      }
      const float* from = by.messages + (position - chunk.begin) * kTable.messages() + channel;
      for_units<kTable>([&](auto segment, auto unit) {
        constexpr int s = decltype(segment)::value, D1 = kTable.segment[s].d();
        constexpr int kMul = kTable.segment[s].mul;
        constexpr int kBehind = decltype(unit)::value * Size::kThreads;
        constexpr int kFirst = x_before<kTable>(s) + decltype(unit)::value * D1;
        if (kBehind + Size::kThreads > kMul && channel + kBehind >= kMul) {
          return;
        }
        for_constants<kTable.parts>([&](auto part) {
          constexpr int kPart = decltype(part)::value;
          if constexpr (kTable.has(kPart, s)) {
#pragma unroll
            for (int i = 0; i < D1; ++i) {
              sum[kFirst + i] += load(from + kTable.before_message(kPart, s) + i * kMul + kBehind);
            }
          }
        });
      });
    }
    for_units<kTable>([&](auto segment, auto unit) {
      constexpr int s = decltype(segment)::value, D1 = kTable.segment[s].d();
      constexpr int kFirst = x_before<kTable>(s) + decltype(unit)::value * D1;
      put_segment<kTable.segment[s].mul, kFirst, D1>(
          op.plan.ir_mul, sum, chunk.begin == 0,
          threadIdx.y * kWarp + decltype(unit)::value * Size::kThreads,
          op.grad_x + source * op.plan.dim_x + kTable.before_x(s), shared);
    });
  }
}

}  // namespace
}  // namespace equigeo
