// Matrices of a batch of edges in the shared memory of a block, with room for their gradients.
#pragma once

#include "kernels/cuda/staged_matrices.cuh"

namespace equigeo {
namespace {

// Some numbers of the matrices of all paths, one path after another. Where those of one edge are
// too many for the memory, a block takes one window of them after another.
struct Window {
  int begin, end;

  __device__ bool has(int matrix, int numbers) const {
    return begin <= matrix && matrix + numbers <= end;
  }
};

// Sets of matrices, of `numbers` for each of up to `edges` edges: matrices of the edges; with
// tangents those of the tangents of the second input; and gradients, as many sets as warps, since
// each adds up its own. Behind them the gradients of second inputs.
template <class T>
struct BlockMatrices {
  T* memory;
  int sets, edges, numbers, dim_y;

  // A matrix of a set and an edge.
  __device__ T* at(
      int set, const Window& window, int matrix, int numbers_of_matrix, int edge) const {
    return memory + (set * numbers + matrix - window.begin) * edges + edge * numbers_of_matrix;
  }

  __device__ T* set(int set) const { return memory + set * numbers * edges; }
  __device__ T* second(int edge) const { return set(sets) + edge * dim_y; }

  // The window from some number on, of whole matrices.
  template <class Numbers>
  __device__ Window window_from(int begin, const Plan<Numbers>& plan, int all) const {
    Window window{begin, begin};
    if (all - begin <= numbers) {
      window.end = all;
      return window;
    }
    // Some copies of the first path that does not end in the window do.
    const PlannedPath* path = plan.path;
    while (path->matrix + path->mul2 * path->numbers <= begin + numbers) {
      ++path;
    }
    window.end = path->matrix + (begin + numbers - path->matrix) / path->numbers * path->numbers;
    require(window.end > begin);
    return window;
  }
};

// As many edges as fit into the available numbers, or the part of the matrices of one that does.
template <class T>
__device__ BlockMatrices<T> fit_matrices(
    T* memory, int available, int sets, int most, int numbers, int dim_y) {
  const int64_t of_edge = static_cast<int64_t>(sets) * numbers + dim_y;
  if (of_edge > available) {
    return {memory, sets, 1, (available - dim_y) / sets / 4 * 4, dim_y};
  }
  const int fit = of_edge == 0 ? most : static_cast<int>(available / of_edge);
  return {memory, sets, fit < most ? fit : most, numbers, dim_y};
}

// Call visit(path, copy, matrix) for those of the paths [first, last) whose matrices are in a
// window.
template <class T, class Visit>
__device__ __forceinline__ void for_matrices(
    const Plan<T>& plan, const Window& window, int64_t first, int64_t last, int step, Visit visit) {
#pragma unroll 1
  for (int64_t p = first; p < last; p += step) {
    const PlannedPath& path = plan.path[p];
    int matrix = path.matrix;
#pragma unroll 1
    for (int copy = 0; copy < path.mul2; ++copy, matrix += path.numbers) {
      if (window.has(matrix, path.numbers)) {
        visit(path, copy, matrix);
      }
    }
  }
}

// Stage the matrices of a window for a batch of edges, for all threads behind the next barrier.
template <class S, class T>
__device__ __forceinline__ void stage_window(
    const Plan<T>& plan,
    const BlockMatrices<T>& matrices,
    int set,
    const Window& window,
    const S* y,
    const EdgeRows* edges,
    int count) {
  for_matrices(
      plan, window, threadIdx.y, plan.count, blockDim.y,
      [&](const PlannedPath& path, int copy, int matrix) {
        T* to = matrices.at(set, window, matrix, path.numbers, 0);
        stage_matrices(plan, path, copy, {0, path.d3}, path.numbers, y, edges, count, to);
      });
}

// What the gradients of matrices in a window add to those of the second inputs of `count` edges.
// Half a warp takes an edge, and a lane the terms of one component.
template <class T>
__device__ __forceinline__ void contract_window(
    const Plan<T>& plan,
    const BlockMatrices<T>& matrices,
    int first_set,
    const Window& window,
    int count) {
  constexpr int kHalf = kWarp / 2;
  const int lane = threadIdx.x % kHalf;
  const Runs<T>& runs = plan.by_second;
#pragma unroll 1
  for (int begin = 2 * threadIdx.y; begin < count; begin += 2 * blockDim.y) {
    const int b = begin + threadIdx.x / kHalf;
    for_matrices(
        plan, window, 0, plan.count, 1, [&](const PlannedPath& path, int copy, int matrix) {
          const int number = runs.count[path.table];
          const int stride = row_stride(path.d1);
          const T* gradients = matrices.at(first_set, window, matrix, path.numbers, b);
          T* grad_y = matrices.second(b) + path.y + copy * path.y_copy;
#pragma unroll 1
          for (int run = b < count ? lane : number; run < number; run += kHalf) {
            const int length = runs.length[path.terms + run];
            T sum = 0;
#pragma unroll 1
            for (int m = 0; m < length; ++m) {
              const int term = path.terms + runs.start[path.terms + m] + run;
              const int place = runs.at[term];
              const T* from = gradients + place / kColumns * stride + place % kColumns;
              T gradient = 0;
#pragma unroll 1
              for (unsigned warp = 0; warp < blockDim.y; ++warp) {
                gradient += *from;
                from += matrices.numbers * matrices.edges;
              }
              sum += runs.value[term] * gradient;
            }
            grad_y[runs.key[path.terms + run] * path.y_component] += sum;
          }
          __syncwarp();  // the next path may add to the same from other lanes
        });
  }
}

}  // namespace
}  // namespace equigeo
