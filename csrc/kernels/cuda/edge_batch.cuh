// Edges that a warp takes together.
#pragma once

#include "kernels/cuda/edge_list.h"
#include "kernels/cuda/launch.cuh"
#include "math/edges.h"

namespace equigeo {
namespace {

constexpr int kBatch = 8;

struct EdgeRows {
  int64_t own, other;
};

__device__ inline int64_t look_up(const int64_t* list, int64_t size, int64_t k) {
  return list == nullptr ? k : Index{list, size, nullptr}[k];
}

// Inlined, or the thread sanitizer, which sees no result of a call on its way to memory, would miss
// that rows were written.
__device__ __forceinline__ EdgeRows rows_of_edge(const EdgeList& list, int64_t k) {
  const int64_t position = look_up(list.position, list.edges, k);
  return {look_up(list.own, list.edges, position), look_up(list.other, list.others, position)};
}

// The positions of a row, in a list that has offsets. What leaves the list is stopped with a trap.
__device__ inline EdgeRange positions_of(const EdgeList& list, int64_t row) {
  const EdgeRange segment = edges_of(list.ptr, row);
  require(0 <= segment.begin && segment.begin <= segment.end && segment.end <= list.edges);
  return segment;
}

// The rows of up to `most` edges, from position k on, into shared memory of the warp, whose lanes
// have met since they read what is there; returns how many.
__device__ inline int load_batch(
    const EdgeList& list, int64_t k, int64_t end, int most, EdgeRows* to) {
  const int count = static_cast<int>(most < end - k ? most : end - k);
  if (static_cast<int>(threadIdx.x) < count) {
    to[threadIdx.x] = rows_of_edge(list, k + threadIdx.x);
  }
  __syncwarp();
  return count;
}

}  // namespace
}  // namespace equigeo
