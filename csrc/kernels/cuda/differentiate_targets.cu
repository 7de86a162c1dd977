// Gradients by targets, or how they change along tangents of the operands.
//
// A block takes the edges of one target, whose row of the gradient its lanes hold in registers.
// Gradients of second inputs are contracted in each lane before they are summed over lanes. What an
// edge adds to the gradient of x passes through scratch memory, and is summed in the order in which
// edges leave their source.
#include "kernels/cuda/differentiate_targets.h"

#include "kernels/cuda/known_targets.cuh"
#include "kernels/cuda/sum_lanes.cuh"

namespace equigeo {
namespace {

template <const KnownTable& kTable, class T>
struct alignas(16) GradientMemory {
  float terms[Sizes<kTable>::kTerms];  // coefficients of all paths
  T second[kBatch][kTable.second];
  float grad_second[kBatch][Sizes<kTable>::kWarps][kTable.second];
  TargetBatch batch;
};

// Coefficients in the order in which they are listed.
template <const KnownTable& kTable>
__device__ __forceinline__ void stage_terms(
    const Plan<float>& plan, float (&to)[Sizes<kTable>::kTerms]) {
  const Runs<float>& runs = plan.by_place;
  const int thread = threadIdx.y * kWarp + threadIdx.x;
  for_constants<kTable.paths>([&](auto p) {
    constexpr int kPath = decltype(p)::value, kCount = kTable.path[kPath].terms;
    constexpr int kBefore = kTable.before_terms(kPath);
    constexpr int kBehind = kTable.before_terms(kPath + 1);
    static_assert(kBehind - kBefore <= kTable.mul);
    const int n = kBefore + thread;
    if (n < kBehind) {
      to[n] = thread < kCount ? runs.value[runs.place[plan.path[kPath].terms + thread]] : 0;
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
// which come both gradients of the inputs; returns the gradient of the weight.
template <const KnownTable& kTable, int P, class T, int D1>
__device__ __forceinline__ float differentiate_path(
    const float* terms,
    const float (&grad)[Sizes<kTable>::kOut],
    const T (&x)[D1],
    T weight,
    LaneEdge<kTable, T>& edge,
    float (&grad_x)[D1]) {
  constexpr KnownPath kPath = kTable.path[P];
  constexpr int kFirst = kTable.before_out(P), kTerms = kTable.before_terms(P);
  constexpr int D2 = kPath.d2(), D3 = kPath.d3(), kY = kPath.before_y();
  int n = 0;
  float slope = 0, number[4] = {};
#pragma unroll
  for (int i = 0; i < D1; ++i) {
    const float weighted = last_part(weight * x[i]);
    T back{};
#pragma unroll
    for (int j = 0; j < D2; ++j) {
      float sum = 0;
      bool any = false;
#pragma unroll
      for (int k = 0; k < D3; ++k) {
        if (kPath.couples(i, j, k)) {
          if (n % 4 == 0) {
            const float4 word = *reinterpret_cast<const float4*>(terms + kTerms + n);
            number[0] = word.x;
            number[1] = word.y;
            number[2] = word.z;
            number[3] = word.w;
          }
          sum += number[n % 4] * grad[kFirst + k];
          any = true;
          ++n;
        }
      }
      if (any) {
        back += sum * edge.second[kY + j];
        edge.grad_second[kY + j] += weighted * sum;
      }
    }
    add_last_part(slope, x[i], back);
    add_last_part(grad_x[i], weight, back);
  }
  return slope;
}

// Where the rows of an edge are for a lane.
template <class T>
struct LaneRows {
  EdgeOperands<T> from;
  float* grad_weight;
  float* message;
};

// One edge, segment by segment of x: all numbers of its rows are read once.
template <const KnownTable& kTable, int Segment = 0, class T>
__device__ __forceinline__ void differentiate_segments(
    const LaneRows<T>& rows,
    const float* terms,
    const float (&grad)[Sizes<kTable>::kOut],
    LaneEdge<kTable, T>& edge) {
  if constexpr (Segment < kTable.segments) {
    constexpr int D1 = 2 * Segment + 1, kBefore = kTable.before_x(Segment);
    T x[D1];
    float grad_x[D1] = {};
#pragma unroll
    for (int i = 0; i < D1; ++i) {
      x[i] = rows.from.x.at((kBefore + i) * kTable.mul);
    }
    for_constants<kTable.paths>([&](auto p) {
      constexpr int kPath = decltype(p)::value;
      if constexpr (kTable.path[kPath].l1 == Segment) {
        const T weight = rows.from.weight.at(kPath * kTable.mul);
        const float slope = differentiate_path<kTable, kPath>(terms, grad, x, weight, edge, grad_x);
        store_away(rows.grad_weight + kPath * kTable.mul, slope);
      }
    });
#pragma unroll
    for (int i = 0; i < D1; ++i) {
      rows.message[(kBefore + i) * kTable.mul] = grad_x[i];
    }
    differentiate_segments<kTable, Segment + 1>(rows, terms, grad, edge);
  }
}

template <const KnownTable& kTable, class T>
__device__ __forceinline__ void differentiate_known_edge(
    const LaneRows<T>& rows,
    const float* terms,
    const float (&grad)[Sizes<kTable>::kOut],
    const T (&second)[kTable.second],
    float (&grad_second)[kTable.second]) {
  constexpr int kSums = kTable.second <= 4 ? 4 : kTable.second <= 16 ? 16 : 32;
  LaneEdge<kTable, T> edge{};
#pragma unroll
  for (int j = 0; j < kTable.second; ++j) {
    edge.second[j] = second[j];
  }
  differentiate_segments<kTable>(rows, terms, grad, edge);
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

// Gradients of second inputs over all warps, in order.
template <const KnownTable& kTable, class T>
__device__ __forceinline__ void put_second(
    const GradientMemory<kTable, T>& memory, int count, float* grad_y) {
  const int thread = threadIdx.y * kWarp + threadIdx.x;
#pragma unroll 1
  for (int n = thread; n < count * kTable.second; n += kTable.mul) {
    const int b = n / kTable.second, j = n % kTable.second;
    float sum = 0;
#pragma unroll
    for (int warp = 0; warp < Sizes<kTable>::kWarps; ++warp) {
      sum += memory.grad_second[b][warp][j];
    }
    grad_y[memory.batch.edges[b].own * kTable.second + j] = sum;
  }
}

// Of the edges at the positions of a chunk.
template <const KnownTable& kTable, class T>
__global__ void __launch_bounds__(kTable.mul, Sizes<kTable>::kBlocks) differentiate_known(
    const __grid_constant__ DifferentiateProducts<float> op,
    const __grid_constant__ TargetGradients by,
    const __grid_constant__ EdgeRange chunk) {
  if (!is_known(by.plan)) {
    return;
  }
  using Size = Sizes<kTable>;
  GradientMemory<kTable, T>& memory = static_shared<GradientMemory<kTable, T>>();
  const int channel = threadIdx.y * kWarp + threadIdx.x;
  stage_terms<kTable>(by.plan, memory.terms);
#pragma unroll 1
  for (int64_t target = blockIdx.x; target < by.edges.rows;
       target = memory.batch.target + gridDim.x) {
    begin_target(by.edges, target, chunk, memory.batch);
    if (memory.batch.left.begin >= memory.batch.left.end) {
      continue;
    }
    float grad[Size::kOut];
#pragma unroll
    for (int k = 0; k < Size::kOut; ++k) {
      grad[k] = load(op.grad + target * (Size::kOut * kTable.mul) + k * kTable.mul + channel);
    }
#pragma unroll 1
    while (const int count = next_batch(by.edges, memory.batch)) {
      stage_second<kTable>(Operand<T>(op.y, op.tangents.y), memory.batch, count, memory.second);
      __syncthreads();
#pragma unroll 1
      for (int b = 0; b < count; ++b) {
        const EdgeRows& edge = memory.batch.edges[b];
        const int64_t position = memory.batch.begin + b - chunk.begin;
        const LaneRows<T> rows{
            operands_of<kTable, T>(op, edge),
            op.grad_weight + edge.own * (kTable.paths * kTable.mul) + channel,
            by.messages + position * (Size::kX * kTable.mul) + channel};
        differentiate_known_edge<kTable>(
            rows, memory.terms, grad, memory.second[b], memory.grad_second[b][threadIdx.y]);
      }
      __syncthreads();
      put_second(memory, count, op.grad_y);
    }
  }
}

// The rows of the gradient of x, from the messages of a chunk of positions, added to what is there
// unless the chunk is the first one.
template <const KnownTable& kTable>
__global__ void __launch_bounds__(kTable.mul) sum_messages(
    const __grid_constant__ DifferentiateProducts<float> op,
    const __grid_constant__ TargetGradients by,
    const __grid_constant__ EdgeRange chunk) {
  if (!is_known(by.plan)) {
    return;
  }
  using Size = Sizes<kTable>;
  float* shared = static_shared<float[Size::kWarps][kPutNumbers<kMostRows, 1>]>()[threadIdx.y];
  const int channel = threadIdx.y * kWarp + threadIdx.x;
#pragma unroll 1
  for (int64_t source = blockIdx.x; source < op.edges.rows; source += gridDim.x) {
    const EdgeRange leaving = positions_of(op.edges, source);
    float sum[Size::kX] = {};
#pragma unroll 1
    for (int64_t k = leaving.begin; k < leaving.end; ++k) {
      const int64_t position = look_up(op.edges.position, op.edges.edges, k);
      if (position < chunk.begin || position >= chunk.end) {
        continue;
      }
      const float* from =
          by.messages + (position - chunk.begin) * (Size::kX * kTable.mul) + channel;
#pragma unroll
      for (int i = 0; i < Size::kX; ++i) {
        sum[i] += load(from + i * kTable.mul);
      }
    }
    for_constants<kTable.segments>([&](auto segment) {
      constexpr int kSegment = decltype(segment)::value;
      put_segment<kTable, kTable.before_x(kSegment), 2 * kSegment + 1>(
          op.plan.ir_mul, sum, chunk.begin == 0, op.grad_x + source * op.plan.dim_x, shared);
    });
  }
}

template <const KnownTable& kTable, class T>
void launch_known(const DifferentiateProducts<float>& op, const TargetGradients& by, void* stream) {
  const dim3 block(kWarp, Sizes<kTable>::kWarps);
  EdgeRange chunk{0, 0};
  do {  // without edges, gradients are zero
    chunk.begin = chunk.end;
    chunk.end = chunk.begin + by.chunk < by.edges.edges ? chunk.begin + by.chunk : by.edges.edges;
    if (by.edges.rows > 0) {
      const auto kernel = differentiate_known<kTable, T>;
      launch_kernel(kernel, grid_of(by.edges.rows), block, 0, stream, op, by, chunk);
    }
    launch_kernel(sum_messages<kTable>, grid_of(op.edges.rows), block, 0, stream, op, by, chunk);
  } while (chunk.end < by.edges.edges);
}

}  // namespace

TargetGradients cut_target_gradients(
    const Plan<float>& plan, const EdgeList& edges, Carver& memory) {
  TargetGradients by{plan, edges, nullptr, 0};
  if (known_table(plan) != nullptr) {
    by.chunk = chunk_of<float>(edges.edges, plan.dim_x);
    by.messages = memory.take<float>(by.chunk * plan.dim_x);
  }
  return by;
}

bool differentiate_targets(
    const DifferentiateProducts<float>& op, const TargetGradients& by, void* stream) {
  const bool all = op.edges.rows > 0 && op.weight != nullptr && op.grad_x != nullptr &&
                   op.grad_y != nullptr && op.grad_weight != nullptr;
  const KnownTable* known = all && op.spline.position == nullptr ? known_table(by.plan) : nullptr;
  return for_known(known, op.second, [&](auto n, auto zero) {
    launch_known<*kKnownTables[decltype(n)::value], decltype(zero)>(op, by, stream);
  });
}

}  // namespace equigeo
