// The edges whose products add up to one row of a result.
#pragma once

#include "math/edges.h"
#include "ops/channelwise_conv.h"
#include "ops/cuda/launch.cuh"

namespace equigeo {
namespace {

// Rows of features: `own` of what belongs to the edge, `other` of what is at its other end.
struct EdgeRows {
  int64_t own, other;
};

// As segment_of, inside [0, edges).
__device__ inline Segment checked_segment(const int64_t* ptr, int64_t row, int64_t edges) {
  const Segment segment = segment_of(ptr, row);
  if (segment.begin < 0 || segment.begin > segment.end || segment.end > edges) {
    __trap();
  }
  return segment;
}

// Without a graph every row has one edge, itself.
struct OwnRow {
  static constexpr int kBatch = 1;  // edges whose matrices are made together
  int64_t rows;

  __device__ Segment of(int64_t row) const { return {row, row + 1}; }
  __device__ EdgeRows at(int64_t k) const { return {k, k}; }
};

// The edges that arrive at a target, with their sources.
struct ArrivingEdges {
  static constexpr int kBatch = 8;
  int64_t rows;
  Graph graph;

  __device__ Segment of(int64_t target) const {
    return checked_segment(graph.ptr, target, graph.edges);
  }
  __device__ EdgeRows at(int64_t k) const {
    const Index order{graph.order, graph.edges, nullptr};
    const Index source{graph.source, graph.sources, nullptr};
    return {order[k], source[k]};
  }
};

// The edges that leave a source, with their targets.
struct LeavingEdges {
  static constexpr int kBatch = 8;
  int64_t rows;
  Graph graph;

  __device__ Segment of(int64_t source) const {
    return checked_segment(graph.back_ptr, source, graph.edges);
  }
  __device__ EdgeRows at(int64_t k) const {
    const Index position{graph.back_order, graph.edges, nullptr};
    const Index order{graph.order, graph.edges, nullptr};
    const Index target{graph.target, graph.targets, nullptr};
    const int64_t sorted = position[k];
    return {order[sorted], target[sorted]};
  }
};

// Rows of up to kBatch edges, from k on, into shared memory of the warp; returns how many.
template <class Edges>
__device__ int load_batch(const Edges& edges, int64_t k, int64_t end, EdgeRows* to) {
  const int64_t left = end - k;
  const int count = static_cast<int>(left < Edges::kBatch ? left : Edges::kBatch);
  __syncwarp();  // whoever still reads the last batch
  if (threadIdx.x < count) {
    to[threadIdx.x] = edges.at(k + threadIdx.x);
  }
  __syncwarp();
  return count;
}

}  // namespace
}  // namespace equigeo
