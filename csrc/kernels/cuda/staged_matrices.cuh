// Edge matrices in the shared memory of a warp.
#pragma once

#include <type_traits>

#include "kernels/cuda/edge_batch.cuh"
#include "kernels/cuda/plan.h"
#include "kernels/cuda/stored.cuh"
#include "math/edge_matrix.h"

namespace equigeo {
namespace {

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

// Call visit(coefficient, component of the second input) for all terms of a run.
template <class T, class Visit>
__device__ __forceinline__ void for_terms(
    const Runs<T>& runs, const PlannedPath& path, int run, const Visit& visit) {
  const int length = runs.length[path.terms + run];
#pragma unroll 1
  for (int m = 0; m < length; ++m) {
    const int term = path.terms + runs.start[path.terms + m] + run;
    visit(runs.value[term], runs.at[term]);
  }
}

// One number of the matrices of up to four edges: a lane adds up its run, for all at once.
template <class S, class T>
__device__ __forceinline__ void stage_number(
    const Runs<T>& runs,
    const PlannedPath& path,
    int run,
    const S* y,
    int64_t dim_y,
    const EdgeRows* edges,
    int count,
    T* to,
    int size) {
  constexpr int kEdges = 4;
  T sum[kEdges] = {};
  for_terms(runs, path, run, [&](T value, int j) {
    const S* second = y + j * path.y_component;
#pragma unroll
    for (int b = 0; b < kEdges; ++b) {
      if (b < count) {
        sum[b] += value * load(second + edges[b].own * dim_y);
      }
    }
  });
#pragma unroll
  for (int b = 0; b < kEdges; ++b) {
    if (b < count) {
      to[b * size] = sum[b];
    }
  }
}

// Rows of the matrices of copy `copy` of the second input for a few edges, `size` numbers apart,
// where lanes have met since they read what is there: for other lanes behind the next barrier.
template <class S, class T>
__device__ __forceinline__ void stage_matrices(
    const Plan<T>& plan,
    const PlannedPath& path,
    int copy,
    RowRange rows,
    int size,
    const S* y,
    const EdgeRows* edges,
    int count,
    T* to) {
  const int stride = row_stride(path.d1);
#pragma unroll 1
  for (int n = threadIdx.x; n < count * size; n += kWarp) {
    to[n] = 0;
  }
  __syncwarp();
  const Runs<T>& runs = plan.by_place;
  const int number = runs.count[path.table];
  y += path.y + copy * path.y_copy;
#pragma unroll 1
  for (int n = threadIdx.x; n < number; n += kWarp) {
    const int key = runs.key[path.terms + n], k = key / kColumns - rows.first;
    if (k < 0 || k >= rows.count) {
      continue;
    }
    T* first = to + k * stride + key % kColumns;
#pragma unroll 1
    for (int b = 0; b < count; b += 4) {
      stage_number(runs, path, n, y, plan.dim_y, edges + b, count - b, first + b * size, size);
    }
  }
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

// A row back from registers.
template <int D1, class T>
__device__ __forceinline__ void store_row(const T (&row)[row_stride(D1)], T* to) {
  using Wide = typename Word<T>::Type;
  constexpr int kWide = sizeof(Wide) / sizeof(T);
#pragma unroll
  for (int i = 0; i < D1; i += kWide) {
    Wide wide;
    wide.x = row[i];
    wide.y = row[i + 1];
    if constexpr (kWide == 4) {
      wide.z = row[i + 2];
      wide.w = row[i + 3];
    }
    *reinterpret_cast<Wide*>(to + i) = wide;
  }
}

}  // namespace
}  // namespace equigeo
