// Edges of a target, batch by batch, for kernels of path tables that are known when this is
// compiled. A block takes a part of a target, and a warp 32 channels of its segments, or several
// times as many, which its lanes hold in registers.
//
// Numbers of operands are T: floats, or dual numbers, whose slopes are tangents. Results are sums
// of products, or how these change along the tangents.
#pragma once

#include <type_traits>

#include "kernels/cuda/channels.cuh"
#include "kernels/cuda/edge_batch.cuh"
#include "kernels/cuda/is_known.cuh"
#include "kernels/cuda/known_tables.h"
#include "kernels/cuda/plan.h"
#include "math/dual.h"

namespace equigeo {
namespace {

// Numbers of a known table that kernels need as constants; the largest of all parts.
template <const KnownTable& kTable>
struct Sizes {
  template <class Number>
  static constexpr int largest(int count, const Number& number) {
    int most = 1;
    for (int n = 0; n < count; ++n) {
      most = number(n) > most ? number(n) : most;
    }
    return most;
  }

  static constexpr int kThreads = kTable.warps * kWarp;
  static constexpr int kPaths =
      largest(kTable.parts, [](int q) { return kTable.paths_before(q, kTable.paths); });
  static constexpr int kMatrices =
      largest(kTable.parts, [](int q) { return kTable.matrices_before(q, kTable.paths); });
  static constexpr int kTerms =
      largest(kTable.parts, [](int q) { return kTable.terms_before(q, kTable.paths); });
  static constexpr int kSums =
      largest(kTable.parts, [](int q) { return kTable.part[q].numbers * kTable.part[q].strands; });
  // Of a segment of x or of the output.
  static constexpr int kRows = largest(kTable.paths, [](int p) {
    return kTable.path[p].l1 > kTable.path[p].l3 ? kTable.path[p].d1() : kTable.path[p].d3();
  });
  // The length of the longest row of an operand.
  static constexpr int kLongest = largest(3, [](int operand) {
    return operand == 0   ? kTable.before_x(kTable.segments)
           : operand == 1 ? kTable.before_weight(kTable.paths)
                          : kTable.second;
  });
  // Blocks that a multiprocessor must have registers for: with 168 per lane, 71 numbers of a target
  // and all numbers of an edge fit, which are loaded at once; with 128, fewer.
  static constexpr int kBlocks = (kSums + kTable.second > 60 ? 12 : 16) / kTable.warps;
  static_assert(kSums <= 80);
};

// A part of a known table.
template <const KnownTable& kTable, int Part>
struct PartSizes {
  static constexpr int kStrands = kTable.part[Part].strands;
  static constexpr int kNumbers = kTable.part[Part].numbers;
  static constexpr int kSums = kNumbers * kStrands;
  static constexpr int kPaths = kTable.paths_before(Part, kTable.paths);
  static constexpr int kMatrices = kTable.matrices_before(Part, kTable.paths);
  static constexpr int kTerms = kTable.terms_before(Part, kTable.paths);
};

// visit(n) for every n < Count, as a constant.
template <int Count, int N = 0, class Visit>
__device__ __forceinline__ void for_constants(const Visit& visit) {
  if constexpr (N < Count) {
    visit(std::integral_constant<int, N>());
    for_constants<Count, N + 1>(visit);
  }
}

// visit(p) for every path of a part, as a constant; of one segment of x, or of all.
template <const KnownTable& kTable, int Part, int Segment = -1, class Visit>
__device__ __forceinline__ void for_paths_of(const Visit& visit) {
  for_constants<kTable.paths>([&](auto p) {
    constexpr KnownPath kPath = kTable.path[decltype(p)::value];
    if constexpr (kPath.part == Part && (Segment < 0 || kPath.segment == Segment)) {
      visit(p);
    }
  });
}

// visit(segment) for every segment of x with paths in a part, as a constant.
template <const KnownTable& kTable, int Part, class Visit>
__device__ __forceinline__ void for_segments_of(const Visit& visit) {
  for_constants<kTable.segments>([&](auto segment) {
    if constexpr (kTable.has(Part, decltype(segment)::value)) {
      visit(segment);
    }
  });
}

// visit(part, slice) with the part that a block takes, as a constant, and which of its blocks that
// is.
template <const KnownTable& kTable, class Visit>
__device__ __forceinline__ void for_part(const Visit& visit) {
  int slice = blockIdx.y;
  for_constants<kTable.parts>([&](auto part) {
    constexpr int kRepeats = kTable.part[decltype(part)::value].repeats;
    if (0 <= slice && slice < kRepeats) {
      visit(part, slice);
    }
    slice -= kRepeats;
  });
}

// Whether a thread is the first one of its block.
__device__ inline bool is_first() { return threadIdx.y == 0 && threadIdx.x == 0; }

// A place in global memory. The compiler must not look into it: it would add constants to n, which
// makes another sum for every address. Constants are a part of addresses.
template <class Number>
__device__ __forceinline__ Number* move_to(Number* row, int n) {
#ifdef EQUIGEO_SIMULATOR
  return row == nullptr ? nullptr : row + n;
#else
  Number* place = row + n;
  asm("" : "+l"(place));
  __builtin_assume(__isGlobal(place));
  return place;
#endif
}
template <class Number, int N>
__device__ __forceinline__ Number* move_to(Number* row, std::integral_constant<int, N>) {
#ifdef EQUIGEO_SIMULATOR
  return move_to(row, N);
#else
  return row + N;
#endif
}

// Where the numbers of an operand are for a lane. Slopes are zero unless `moves` is set.
template <class T>
struct Operand {
  const float *value, *slope;
  bool moves;

  template <class N>
  __device__ __forceinline__ T at(N n) const {
    if constexpr (std::is_same_v<T, float>) {
      return load(value + n);
    } else {
      return {load(value + n), moves ? load(slope + n) : 0};
    }
  }
  template <class N>
  __device__ __forceinline__ Operand behind(N n) const {
    return {move_to(value, n), move_to(slope, n), moves};
  }
};

// The slopes of a row, zeros where there are none: where registers suffice, to load these takes
// fewer instructions than to ask for each number.
template <const KnownTable& kTable>
__device__ const float kZeros[Sizes<kTable>::kLongest] = {};
template <const KnownTable& kTable>
__device__ __forceinline__ const float* slopes_of(const float* tangents, int64_t row) {
  return tangents == nullptr ? kZeros<kTable> : tangents + row;
}

// Where the rows of an edge begin; null where an edge has no gradient or message.
struct alignas(16) EdgePlaces {
  const float *x, *weight;
  float *grad_weight, *message;
  const float *x_slope, *weight_slope;
  int64_t own;
};

// The edges of a batch, from position `begin` on, and positions that are left. They take no
// registers.
struct TargetBatch {
  EdgePlaces edges[kBatch];
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

// The next batch, for all threads of the block; returns how many edges it has. Where their rows
// begin is place(rows, position), so that each is multiplied out once.
template <int Most, class Place>
__device__ __forceinline__ int next_batch(
    const EdgeList& list, TargetBatch& batch, const Place& place) {
  __syncthreads();  // what was there has been read
  const EdgeRange left = batch.left;
  const int64_t all = left.begin < left.end ? left.end - left.begin : 0;
  const int count = static_cast<int>(all < Most ? all : Most);
  if (threadIdx.y == 0 && static_cast<int>(threadIdx.x) < count) {
    const int64_t position = left.begin + threadIdx.x;
    batch.edges[threadIdx.x] = place(rows_of_edge(list, position), position);
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
template <const KnownTable& kTable, class T, int Most>
__device__ __forceinline__ void stage_second(
    const float* y,
    const float* tangent,
    const TargetBatch& batch,
    int count,
    T (&to)[Most][kTable.second]) {
  const int thread = threadIdx.y * kWarp + threadIdx.x;
#pragma unroll 1
  for (int n = thread; n < Most * kTable.second; n += Sizes<kTable>::kThreads) {
    const int b = n / kTable.second, j = n % kTable.second;
    T number{};
    if (b < count) {
      const int64_t row = batch.edges[b].own * kTable.second;
      number = Operand<T>{y + row, slopes_of<kTable>(tangent, row), true}.at(j);
    }
    to[b][j] = number;
  }
}

// The channels of a lane in a segment: those of strands, behind the first one.
template <const KnownTable& kTable, int Part, int Segment>
struct Strands {
  static constexpr int kMul = kTable.segment[Segment].mul;
  static constexpr int kStep = Sizes<kTable>::kThreads;
  static constexpr int kCount = kTable.part[Part].strands;
  static constexpr bool kAll = kMul == kCount * kStep * kTable.part[Part].repeats;

  int first;

  // Whether the lane has a strand, and how many channels behind the first one that is; one that it
  // has not is read as the last channel.
  __device__ __forceinline__ bool has(int n) const { return kAll || first + n * kStep < kMul; }
  __device__ __forceinline__ int behind(int n) const {
    return has(n) ? n * kStep : kMul - 1 - first;
  }
};

// The first channel of a lane in all segments of a part.
template <const KnownTable& kTable, int Part>
__device__ __forceinline__ int first_channel(int slice) {
  return (slice * PartSizes<kTable, Part>::kStrands * kTable.warps + threadIdx.y) * kWarp +
         threadIdx.x;
}

// What an edge reads of its source, and its weights, from the first channel on.
template <class T>
struct EdgeOperands {
  Operand<T> x, weight;
};

// All components of the strands of a segment, behind Before other numbers of the row.
template <int Before, class Lane, class T, int N, int D>
__device__ __forceinline__ void load_strands(
    const Lane& lane, const Operand<T>& from, T (&to)[N][D]) {
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int i = 0; i < D; ++i) {
      to[n][i] = from.at(Before + i * Lane::kMul + lane.behind(n));
    }
  }
}

template <const KnownTable& kTable, class Op>
__device__ __forceinline__ EdgePlaces places_of(const Op& op, const EdgeRows& edge) {
  const int64_t x = edge.other * kTable.before_x(kTable.segments);
  const int64_t weight = edge.own * kTable.before_weight(kTable.paths);
  return {op.x + x,
          op.weight + edge.own * op.weight_stride,
          nullptr,
          nullptr,
          slopes_of<kTable>(op.tangents.x, x),
          slopes_of<kTable>(op.tangents.weight, weight),
          edge.own};
}

template <class T>
__device__ __forceinline__ EdgeOperands<T> operands_of(
    const EdgePlaces& edge, int channel, bool x_moves = true, bool weight_moves = true) {
  const Operand<T> x{edge.x, edge.x_slope, x_moves};
  const Operand<T> weight{edge.weight, edge.weight_slope, weight_moves};
  return {x.behind(channel), weight.behind(channel)};
}

// Where the weights of the paths of a part are, if not in order, in shared memory.
template <const KnownTable& kTable>
struct WeightPlaces {
  int at[Sizes<kTable>::kPaths];

  template <int Part>
  __device__ __forceinline__ void stage(const Plan<float>& plan) {
    for_paths_of<kTable, Part>([&](auto p) {
      constexpr int kPath = decltype(p)::value, kAt = kTable.paths_before(Part, kPath);
      if (!kTable.in_order && threadIdx.y == 0 && threadIdx.x == kAt % kWarp) {
        at[kAt] = plan.path[kPath].weight;
      }
    });
  }

  template <int Part, int P>
  __device__ __forceinline__ auto of() const {
    if constexpr (kTable.in_order) {
      return std::integral_constant<int, kTable.before_weight(P)>();
    } else {
      // Volatile, or all of them would be kept in registers from edge to edge.
      return int{*static_cast<const volatile int*>(at + kTable.paths_before(Part, P))};
    }
  }
};

// The sums of a lane for D components of a strand of a segment, behind Before others, to its place
// in a row; added to what is there unless they are the first ones.
template <int Mul, int Before, int D, int Size>
__device__ __forceinline__ void put_segment(
    bool ir_mul, const float (&sum)[Size], bool first, int channel, float* segment, float* shared) {
  const Tile tile{0, 0, 0, Mul, D, 0, D, channel};
  float values[D][1];
#pragma unroll
  for (int k = 0; k < D; ++k) {
    values[k][0] = sum[Before + k];
  }
  put_rows(tile, ir_mul, values, Target<float>{segment, segment, first, true}, shared);
}

}  // namespace
}  // namespace equigeo
