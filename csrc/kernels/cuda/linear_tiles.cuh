// Products of matrices by a block of threads, a tile of the result in the registers of all.
#pragma once

#include "kernels/cuda/linear_plan.h"
#include "kernels/cuda/staged_matrices.cuh"
#include "kernels/cuda/stored.cuh"

namespace equigeo {
namespace {

// Threads are 16 x 8, each of which has 4 x 4 numbers of a tile of kTileVectors x kTileCopies.
constexpr int kEach = 4;
constexpr int kAcross = kTileCopies / kEach;
constexpr int kTileThreads = kAcross * kTileVectors / kEach;
constexpr int kDepth = 16;  // terms of the sums that are staged at once

// Blocks that a multiprocessor must have registers for: none spills.
constexpr int kResident = 2;

// From one staged row to the next: 12 banks of shared memory further, where 3 or 5 components of
// neighbouring copies are in banks of their own, more or less, and words of 16 bytes are aligned.
constexpr int kRowA = kTileVectors + 12, kRowB = kTileCopies + 12;

template <class T>
struct alignas(16) LinearMemory {
  static constexpr int kOperands = kDepth * (kRowA + kRowB), kResult = kTileVectors * kRowB;
  T numbers[kOperands > kResult ? kOperands : kResult];

  __device__ T* first() { return numbers; }                    // (kDepth, kTileVectors)
  __device__ T* second() { return numbers + kDepth * kRowA; }  // (kDepth, kTileCopies)
  __device__ T* result() { return numbers; }                   // (kTileVectors, kTileCopies)
};

template <class T>
__device__ __forceinline__ LinearMemory<T>& linear_memory() {
  return static_shared<LinearMemory<T>>();
}

template <class T>
using TileSum = T[kEach][kEach];

// sum += the product of what is staged.
template <class T>
__device__ __forceinline__ void multiply_tile(LinearMemory<T>& memory, TileSum<T>& sum) {
  const int row = threadIdx.x / kAcross * kEach, column = threadIdx.x % kAcross * kEach;
#pragma unroll 4
  for (int k = 0; k < kDepth; ++k) {
    T a[kEach], b[kEach];
    load_row<kEach>(memory.first() + k * kRowA + row, a);
    load_row<kEach>(memory.second() + k * kRowB + column, b);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        sum[i][j] += a[i] * b[j];
      }
    }
  }
}

// The sums of all threads into shared memory, where any of them finds them behind a barrier.
template <class T>
__device__ __forceinline__ void stage_result(const TileSum<T>& sum, LinearMemory<T>& memory) {
  const int row = threadIdx.x / kAcross * kEach, column = threadIdx.x % kAcross * kEach;
  __syncthreads();  // the operands have been read
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    store_row<kEach>(sum[i], memory.result() + (row + i) * kRowB + column);
  }
  __syncthreads();
}

// Vectors of a segment: components [component, component + components) of rows [row, row + rows).
// Vector (r, i) is followed by (r, i + 1). The first component of a tile says how many there are.
struct Vectors {
  int64_t row;
  int rows, component, components;

  __device__ int count() const { return rows * components; }
  __device__ bool operator==(const Vectors& other) const {
    return rows == other.rows && component == other.component;
  }
};

// In how many tiles of at most `most` vectors some rows of d components are cut, and tile n of
// them: several whole rows, or a part of one.
__device__ inline int64_t vector_tiles(int64_t rows, int d, int most) {
  const int64_t step = d < most ? most / d : 1;
  return (rows + step - 1) / step * ((d + most - 1) / most);
}

__device__ inline Vectors vectors_of(int64_t n, int64_t rows, int d, int most) {
  const int parts = (d + most - 1) / most, step = d < most ? most / d : 1;
  const int64_t row = n / parts * step, left = rows - row;
  const int component = static_cast<int>(n % parts) * most;
  const int components = d - component < most ? d - component : most;
  return {row, static_cast<int>(left < step ? left : step), component, components};
}

// A segment of rows of `dim` numbers.
struct LinearSegment {
  int64_t dim, offset;
  int mul, d;
  bool ir_mul;

  __device__ bool outside() const { return ir_mul || d == 1; }
  __device__ int64_t next_copy() const { return outside() ? 1 : d; }
};

// One copy of one vector, and where it is from the first row and copy on; nothing where `at` is
// negative.
struct Spot {
  int64_t at;
  int vector, copy;
};

// Spot n of `copies` copies, a multiple of 8, of a tile. Spots that follow one another are
// neighbours in memory; where copies are, 8 of them, 32 bytes or more, suffice for that. The last
// spots are those of vectors that the tile lacks.
__device__ inline Spot spot_of(
    const Vectors& vectors, const LinearSegment& segment, int copies, int n) {
  constexpr int kTogether = 8;
  const int all = vectors.count() * copies;
  if (n >= all) {
    return {-1, vectors.count() + (n - all) / copies, (n - all) % copies};
  }
  int row, component, copy;
  if (segment.outside()) {
    const int vector = n / kTogether % vectors.count();
    copy = n / (kTogether * vectors.count()) * kTogether + n % kTogether;
    row = vector / vectors.components;
    component = vector % vectors.components;
  } else {
    const int of_row = vectors.components * copies;
    row = n / of_row;
    copy = n % of_row / vectors.components;
    component = n % vectors.components;
  }
  const int64_t i = vectors.component + component;
  const int64_t inner =
      segment.outside() ? i * segment.mul + copy : static_cast<int64_t>(copy) * segment.d + i;
  return {row * segment.dim + segment.offset + inner, row * vectors.components + component, copy};
}

// The spots of a thread in a tile of `Count` numbers, `Copies` for each vector.
template <int Count, int Copies>
struct Spots {
  static constexpr int kEvery = Count / kTileThreads;
  Vectors vectors;
  Spot spot[kEvery];

  // What takes a while happens once for tiles that differ in their rows alone.
  __device__ __forceinline__ void find(const Vectors& wanted, const LinearSegment& segment) {
    if (vectors == wanted) {
      vectors.row = wanted.row;
      return;
    }
    vectors = wanted;
#pragma unroll
    for (int e = 0; e < kEvery; ++e) {
      spot[e] = spot_of(vectors, segment, Copies, threadIdx.x + e * kTileThreads);
    }
  }

  // Copies from `first` on into shared memory, zero where there are none: `slot` tells where to.
  template <class S, class T, class Slot>
  __device__ __forceinline__ void stage(
      const S* rows, const LinearSegment& segment, int first, T* to, const Slot& slot) const {
    const S* from = rows + vectors.row * segment.dim + first * segment.next_copy();
#pragma unroll
    for (int e = 0; e < kEvery; ++e) {
      const bool any = spot[e].at >= 0 && first + spot[e].copy < segment.mul;
      to[slot(spot[e])] = any ? load(from + spot[e].at) : T(0);
    }
  }
};

}  // namespace
}  // namespace equigeo
