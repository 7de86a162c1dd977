// Gradients of products for a tile of the first input, by a warp: one path and one edge of a batch
// after another, each while what the next one needs is on its way.
#pragma once

#include "kernels/cuda/block_matrices.cuh"
#include "kernels/cuda/differentiate_edge.cuh"
#include "kernels/cuda/differentiate_products.h"

namespace equigeo {
namespace {

constexpr int kWarps = 4;     // of a block, at most
constexpr int kChannels = 2;  // of a lane, at most

// What a warp keeps in static shared memory, twice, of which one is used while the other is
// brought: channels of an edge at its other end, and its weights. Rows of a tile pass here too.
template <class T>
struct WarpMemory {
  static constexpr int kNumbers = kPutNumbers<7, kChannels>;
  static_assert(kNumbers >= kPutNumbers<13, 1>);
  struct Turn {
    T channels[kNumbers];
    T weights[kChannels * kWarp], weight_tangents[kChannels * kWarp];
  };
  Turn turn[2];
};

// What a block keeps there: a batch of edges in a window of their matrices, which takes no
// registers here.
template <class T>
struct BlockMemory {
  WarpMemory<T> warp[kWarps];
  EdgeRows edges[kBatch];
  BlockMatrices<T> matrices;
  Window window;
  int64_t row;  // the one row of all edges, or that of the first
  int count;
  bool first, last;  // of what adds to its rows

  __device__ WarpMemory<T>& of_warp() { return warp[threadIdx.y]; }
};

// One path, for one copy of the second input, and one edge of a batch.
struct Step {
  int p, copy, matrix, b;
};

// The steps of a tile for the edges [begin, end) of a batch, one after another: those of paths
// whose matrices are in the window.
template <class T>
struct Steps {
  const PlannedPath* paths;
  const Window& window;
  int last, begin, end;

  __device__ bool has(const Step& step) const { return step.p < last; }

  __device__ Step first(int p) const {
    Step step{p, 0, paths[p].matrix, begin};
    skip(step);
    return step;
  }

  __device__ void advance(Step& step) const {
    if (++step.b == end) {
      step.b = begin;
      next_copy(step);
      skip(step);
    }
  }

 private:
  __device__ void next_copy(Step& step) const {
    step.matrix += paths[step.p].numbers;
    if (++step.copy == paths[step.p].mul2) {
      step.copy = 0;
      ++step.p;
      step.matrix = step.p < last ? paths[step.p].matrix : 0;
    }
  }

  __device__ void skip(Step& step) const {
    while (has(step) && !window.has(step.matrix, paths[step.p].numbers)) {
      next_copy(step);
    }
  }
};

// What a block keeps at the start of its dynamic shared memory if weights are splines: their
// functions at the positions of a batch of edges, with derivatives, and what each lane adds to the
// gradients of positions.
template <class T>
struct SplineMemory {
  T values[kBatch * kMostFunctions], slopes[kBatch * kMostFunctions];
  T sums[kBatch][kWarps][kWarp];
};

// Whether weights may be splines.
template <bool Second, class S>
constexpr bool kSplines = !Second && std::is_same_v<S, Compute<S>>;

// Channels of a row, by way of shared memory where lanes would read from far apart.
template <int D, int N, class S, class T>
__device__ __forceinline__ void load_row_channels(
    const S* segment, const Tile& tile, bool ir_mul, T* shared, T (&to)[D][N]) {
  const Channels channels = channels_of(ir_mul, tile.mul, D, tile.channel);
  if (ir_mul || D == 1) {
    load_channels(segment, channels, 0, 0, D, to);
    return;
  }
  __syncwarp();  // what was there has been read
  stage_channels<N>(segment, ir_mul, tile.mul, D, tile.channel, shared);
  wait_for_copies();
  __syncwarp();
  load_staged(shared, StagedLayout<N>(ir_mul, D), channels, 0, 0, D, to);
}

// Ask for what a step needs from afar. Derivatives of splines take the place of tangents.
template <int N, bool Second, class S, class T>
__device__ __forceinline__ void bring_step(
    const DifferentiateProducts<S>& op,
    const Step& step,
    const Tile& tile,
    const EdgeRows& rows,
    typename WarpMemory<T>::Turn& to) {
  const PlannedPath& path = op.plan.path[step.p];
  const Channels channels = channels_of(op.in_ir_mul, path.mul, path.d3, tile.channel);
  if (fits<N>(path.d3, WarpMemory<T>::kNumbers)) {
    const S* grad = op.grad + rows.other * op.plan.dim_out + path.out;
    stage_channels<N>(grad, op.in_ir_mul, path.mul, path.d3, tile.channel, to.channels);
  }
  if constexpr (kSplines<Second, S>) {
    if (op.spline.position != nullptr && path.weight >= 0) {
      const SplineMemory<T>& functions = *dynamic_shared<SplineMemory<T>>();
      combine_functions<N, true>(
          op.spline, path, step.copy, channels, rows.own, functions.values + step.b,
          functions.slopes + step.b, to.weights, to.weight_tangents);
      return;
    }
  }
  const int64_t at = rows.own * op.weight_stride;
  bring_lane_weights<N>(op.weight, at, path, step.copy, channels, T(1), to.weights);
  if constexpr (Second) {
    const int64_t row = rows.own * op.plan.dim_weight;
    bring_lane_weights<N>(
        op.tangents.weight, row, path, step.copy, channels, T(0), to.weight_tangents);
  }
}

template <int D1, int N, bool Second, class S, class T>
__device__ __forceinline__ void make_step(
    const DifferentiateProducts<S>& op,
    const Step& step,
    const Tile& tile,
    BlockMemory<T>& memory,
    typename WarpMemory<T>::Turn& from,
    Lane<D1, N, Second, T>& lane) {
  const Plan<T>& plan = op.plan;
  const PlannedPath& path = plan.path[step.p];
  const EdgeRows& rows = memory.edges[step.b];
  const Channels channels = channels_of(op.in_ir_mul, path.mul, path.d3, tile.channel);
  LaneWeights<N, T> weight;
#pragma unroll
  for (int n = 0; n < N; ++n) {
    weight.at[n] = from.weights[n * kWarp + threadIdx.x];
    weight.tangent[n] = Second ? from.weight_tangents[n * kWarp + threadIdx.x] : T(0);
  }
  const BlockMatrices<T>& matrices = memory.matrices;
  const int set = matrices.numbers * matrices.edges;
  const bool turns = Second && op.tangents.y != nullptr;
  const int gradients = (Second ? 2 : 1) + threadIdx.y;
  const EdgeMatrix<T> edge{
      matrices.at(0, memory.window, step.matrix, path.numbers, step.b), turns ? set : 0,
      op.grad_y == nullptr ? 0 : gradients * set, path.d3};
  const MaybeStaged<N, S, T> grad{
      op.grad + rows.other * plan.dim_out + path.out,
      fits<N>(path.d3, WarpMemory<T>::kNumbers) ? from.channels : nullptr,
      StagedLayout<N>(op.in_ir_mul, path.d3)};
  T slope[N];
  differentiate_edge(grad, channels, edge, weight, lane, slope);
  if (op.grad_weight != nullptr && path.weight >= 0) {
    S* to = weights_of(op.grad_weight, rows.own * plan.dim_weight, path, step.copy);
#pragma unroll
    for (int n = 0; n < N; ++n) {
      if (channels.has(n)) {
        store_away(to + channels.at(n) * path.mul2, slope[n]);
      }
    }
  }
  if constexpr (kSplines<Second, S>) {
    if (op.spline.position != nullptr && path.weight >= 0) {
      T& sum = dynamic_shared<SplineMemory<T>>()->sums[step.b][threadIdx.y][threadIdx.x];
#pragma unroll
      for (int n = 0; n < N; ++n) {
        sum += slope[n] * from.weight_tangents[n * kWarp + threadIdx.x];
      }
    }
  }
}

// All steps, each while what the next one needs is on its way.
template <int D1, int N, bool Second, class S, class T>
__device__ __forceinline__ void make_steps(
    const DifferentiateProducts<S>& op,
    const Tile& tile,
    BlockMemory<T>& memory,
    const Steps<T>& steps,
    Lane<D1, N, Second, T>& lane) {
  WarpMemory<T>& own = memory.of_warp();
  Step step = steps.first(tile.first), next = step;
  __syncwarp();  // what was there has been read
  if (steps.has(step)) {
    bring_step<N, Second, S, T>(op, step, tile, memory.edges[step.b], own.turn[0]);
  }
  wait_for_former_copies();
#pragma unroll 1
  for (int turn = 0; steps.has(step); turn ^= 1, step = next) {
    steps.advance(next);
    if (steps.has(next)) {
      bring_step<N, Second, S, T>(op, next, tile, memory.edges[next.b], own.turn[turn ^ 1]);
    }
    wait_for_former_copies();
    __syncwarp();
    make_step(op, step, tile, memory, own.turn[turn], lane);
    __syncwarp();  // what is there has been read
  }
}

// The edges [begin, end) of a batch, all of one row, for a tile of it.
template <int D1, int N, bool Second, class S, class T>
__device__ __forceinline__ void add_tile(
    const DifferentiateProducts<S>& op,
    const Tile& tile,
    BlockMemory<T>& memory,
    int begin,
    int end,
    int64_t row) {
  Lane<D1, N, Second, T> lane = {};
  const int64_t at = row * op.plan.dim_x + tile.begin;
  T* shared = memory.of_warp().turn[0].channels;
  if (begin < end && tile.first < tile.last) {
    load_row_channels<D1>(op.x + at, tile, op.in_ir_mul, shared, lane.x);
    if constexpr (Second) {
      if (op.tangents.x != nullptr) {
        load_row_channels<D1>(op.tangents.x + at, tile, op.in_ir_mul, shared, lane.x_tangent);
      }
    }
    const Steps<T> steps{op.plan.path, memory.window, tile.last, begin, end};
    make_steps(op, tile, memory, steps, lane);
  }
  if (op.grad_x != nullptr) {
    T* sums = op.sums == nullptr ? nullptr : op.sums + at;
    const Target<S> target{op.grad_x + at, sums, memory.first, memory.last};
    put_rows(tile, op.plan.ir_mul, lane.grad_x, target, shared);
  }
}

// The tiles of this warp: of the one row of all edges, or of the row of each edge.
template <bool Second, class S, class T>
__device__ __forceinline__ void add_tiles(
    const DifferentiateProducts<S>& op, BlockMemory<T>& memory) {
  const bool own = op.edges.ptr == nullptr;
  const int parts = own ? memory.count : 1, tiles = op.plan.totals->tiles;
#pragma unroll 1
  for (int t = threadIdx.y; t < tiles * parts; t += blockDim.y) {
    const Tile& tile = op.plan.tile[t / parts];
    const int b = t % parts, begin = own ? b : 0, end = own ? b + 1 : memory.count;
    for_components(tile.d, [&](auto d1) {
      constexpr int D1 = decltype(d1)::value;
      constexpr int kMost = channels_per_lane<T>(Side::kFirst, D1);
      if (tile.mul - tile.channel > kWarp) {
        add_tile<D1, kMost, Second>(op, tile, memory, begin, end, memory.row + b);
      } else {
        add_tile<D1, 1, Second>(op, tile, memory, begin, end, memory.row + b);
      }
    });
  }
}

}  // namespace
}  // namespace equigeo
