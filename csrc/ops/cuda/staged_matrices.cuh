// Edge matrices in the shared memory of a warp, and what its lanes hold in registers.
#pragma once

#include <cuda_pipeline.h>

#include <type_traits>

#include "math/edge_matrix.h"
#include "ops/cuda/edge_lists.cuh"
#include "ops/cuda/plan.cuh"

namespace equigeo {
namespace {

// Numbers from one row of a staged matrix to the next: rows are read in words of 16 bytes.
EQUIGEO_HOST_DEVICE constexpr int row_stride(int d1) { return d1 == 1 ? 1 : (d1 + 3) / 4 * 4; }

// Rows [first, first + count) of a matrix.
struct RowRange {
  int first, count;
};

// Call run with the number of components of a first input as a constant.
template <class Run>
__device__ __forceinline__ void for_components(int d1, const Run& run) {
  switch (d1) {
    case 1:
      return run(std::integral_constant<int, 1>());
    case 3:
      return run(std::integral_constant<int, 3>());
    case 5:
      return run(std::integral_constant<int, 5>());
    case 7:
      return run(std::integral_constant<int, 7>());
    case 9:
      return run(std::integral_constant<int, 9>());
    case 11:
      return run(std::integral_constant<int, 11>());
    default:
      return run(std::integral_constant<int, 13>());
  }
}

// Rows [first, first + count) of the matrices of copy `copy` of the second input for a few edges,
// one after another. A lane adds up the terms of a number, for Batch edges at once.
template <int Batch, class T>
__device__ __forceinline__ void stage_matrices(
    const Plan<T>& plan,
    const PlannedPath& path,
    int copy,
    RowRange rows,
    const T* y,
    const EdgeRows* edges,
    int count,
    T* to) {
  const int stride = row_stride(path.d1), size = rows.count * stride;
  __syncwarp();  // whoever still reads what was there
#pragma unroll 1
  for (int n = threadIdx.x; n < count * size; n += kWarp) {
    to[n] = 0;
  }
  __syncwarp();
  const Run* runs = plan.by_place.run + path.terms;
  const Term<T>* terms = plan.by_place.term + path.terms;
  const int number = plan.by_place.count[path.table];
  y += path.y + copy * path.y_copy;
#pragma unroll 1
  for (int n = threadIdx.x; n < number; n += kWarp) {
    const Run run = runs[n];
    const int k = run.key / kColumns - rows.first;
    if (k < 0 || k >= rows.count) {
      continue;
    }
    T* number_of_first = to + k * stride + run.key % kColumns;
#pragma unroll 1
    for (int first = 0; first < count; first += Batch) {
      T sum[Batch] = {};
#pragma unroll 1
      for (int m = run.first; m < run.last; ++m) {
        const Term<T> term = terms[m];
        const T* second = y + term.at * path.y_component;
#pragma unroll
        for (int b = 0; b < Batch; ++b) {
          if (first + b < count) {
            sum[b] += term.value * second[edges[first + b].own * plan.dim_y];
          }
        }
      }
#pragma unroll
      for (int b = 0; b < Batch; ++b) {
        if (first + b < count) {
          number_of_first[(first + b) * size] = sum[b];
        }
      }
    }
  }
  __syncwarp();
}

template <class T>
struct Word;
template <>
struct Word<float> {
  using Type = float4;
};
template <>
struct Word<double> {
  using Type = double2;
};

// A row of a staged matrix into registers.
template <int D1, class T>
__device__ __forceinline__ void load_row(const T* from, T (&row)[row_stride(D1)]) {
  if constexpr (D1 == 1) {
    row[0] = from[0];
  } else {
    using Wide = typename Word<T>::Type;
    constexpr int kWide = sizeof(Wide) / sizeof(T);
#pragma unroll
    for (int i = 0; i < D1; i += kWide) {
      const Wide wide = *reinterpret_cast<const Wide*>(from + i);
      row[i] = wide.x;
      row[i + 1] = wide.y;
      if constexpr (kWide == 4) {
        row[i + 2] = wide.z;
        row[i + 3] = wide.w;
      }
    }
  }
}

// A segment of a row of features as a lane sees it, which has the channels first, first + 32, ...
struct Channels {
  int step, component;  // from one channel, one component to the next
  int first;
  int left;  // from the first one on, not positive where the lane has none

  __device__ bool has(int n) const { return n * kWarp < left; }
};

__device__ inline Channels channels_of(bool ir_mul, int mul, int d, int first) {
  const int lane = threadIdx.x;
  return {ir_mul ? 1 : d, ir_mul ? mul : 1, first + lane, mul - first - lane};
}

// Components [first, first + count) of channels n, n + 1, ... of the lane; zero where there are
// none.
template <int D, int N, class T>
__device__ __forceinline__ void load_channels(
    const T* segment, const Channels& channels, int n, int first, int count, T (&to)[D][N]) {
  const T* from = segment + (channels.first + n * kWarp) * channels.step;
  from += first * channels.component;
#pragma unroll
  for (int i = 0; i < D; ++i) {
    const T* at = from;
#pragma unroll
    for (int m = 0; m < N; ++m) {
      to[i][m] = channels.has(n + m) && i < count ? __ldg(at) : T(0);
      at += kWarp * channels.step;
    }
    from += channels.component;
  }
}

// The weights of a path for a copy of the second input, or null where it has none.
template <class T>
__device__ T* weights_of(T* weights, int64_t row, const PlannedPath& path, int copy) {
  const bool any = weights != nullptr && path.weight >= 0;
  return any ? weights + row + path.weight + copy : nullptr;
}

// Weights of the channels of a lane for a few edges, into shared memory, where each lane finds its
// own again. They come from afar and only once: ask for them before matrices are made, wait after.
template <int N, class T>
__device__ __forceinline__ void fetch_weights(
    const T* weights,
    int64_t dim,
    const PlannedPath& path,
    int copy,
    const Channels& channels,
    const EdgeRows* edges,
    int count,
    T* to) {
  __syncwarp();  // those that are there have been read
#pragma unroll 1
  for (int b = 0; b < count; ++b) {
    const T* from = weights_of(weights, edges[b].own * dim, path, copy);
#pragma unroll
    for (int n = 0; n < N; ++n) {
      T* at = to + (b * N + n) * kWarp + threadIdx.x;
      if (from == nullptr) {
        *at = T(1);
      } else if (channels.has(n)) {
        __pipeline_memcpy_async(at, from + (channels.first + n * kWarp) * path.mul2, sizeof(T));
      } else {
        *at = T(0);
      }
    }
  }
}

__device__ inline void wait_for_weights() {
  __pipeline_commit();
  __pipeline_wait_prior(0);
}

template <int N, class T>
__device__ __forceinline__ void load_weights(const T* from, int b, T (&weight)[N]) {
#pragma unroll
  for (int n = 0; n < N; ++n) {
    weight[n] = from[(b * N + n) * kWarp + threadIdx.x];
  }
}

}  // namespace
}  // namespace equigeo
