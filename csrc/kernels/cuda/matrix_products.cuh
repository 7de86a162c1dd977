// Several products of matrices by one launch, each of which may be summed by parts.
#pragma once

#include "kernels/cuda/linear_tiles.cuh"

namespace equigeo {
namespace {

// Rows of numbers. Row n is row list[n] of `at` where there is a list.
template <class T>
struct MatrixRows {
  const T* at;
  int64_t stride;
  const int64_t* list;
};

// An operand (count, depth) of a product, whose rows are those of the memory or, `across`, columns.
template <class T>
struct Operand {
  MatrixRows<T> rows;
  bool across;
};

// result[i][j] = or += sum over q and d of sign_q left_q[i][d] right_q[j][d], for one or two q. The
// terms d of a sum are divided into parts, whose results lie `next_part` apart.
template <class T>
struct MatrixProduct {
  Operand<T> left, right;
  const T *other_left, *other_right;  // of the second q, or null
  T sign;                             // of the second q; the first has one
  bool add;
  int64_t rows, columns, depth;
  int64_t part, parts, next_part;
  T* result;
  int64_t stride;
  const int64_t* list;  // of the rows of the result, or null

  EQUIGEO_HOST_DEVICE int64_t tiles() const {
    const int64_t down = (rows + kTileVectors - 1) / kTileVectors;
    return down * ((columns + kTileCopies - 1) / kTileCopies) * parts;
  }
};

// As many as a convolution by orders needs at once: two of every order but the first, and the bias.
constexpr int kMostProducts = 22;

template <class T>
struct MatrixProducts {
  int count;
  MatrixProduct<T> product[kMostProducts];

  void push(const MatrixProduct<T>& next) { product[count++] = next; }
};

// Some numbers of an operand in the registers of a block of threads, on their way to shared memory:
// rows [first, first + Count), terms [depth, depth + kDepth).
template <class T, int Count>
struct Fetched {
  static constexpr int kEvery = Count * kDepth / kTileThreads;
  T value[kEvery];

  // Zero beyond `rows` and `end`. Lanes read neighbours.
  __device__ __forceinline__ void fetch(
      const Operand<T>& operand, int64_t first, int64_t rows, int64_t depth, int64_t end) {
    const bool across = operand.across;
    const int64_t i = first + first_row(across), d = depth + first_term(across);
    const int left = at_most_one_tile(across ? end - d : rows - i);
    const bool any = across ? i < rows : d < end;
    const int64_t line = across ? d : i, stride = operand.rows.stride;
    const T* from = operand.rows.at + (across ? i : d);
    if (operand.rows.list == nullptr) {
      from += line * stride;
      const int64_t jump = next(across) * stride;
#pragma unroll
      for (int e = 0; e < kEvery; ++e, from += jump) {
        value[e] = any && e * next(across) < left ? load(from) : T(0);
      }
    } else {
#pragma unroll
      for (int e = 0; e < kEvery; ++e) {
        const int at = e * next(across);
        value[e] = any && at < left ? load(from + operand.rows.list[line + at] * stride) : T(0);
      }
    }
  }

  __device__ __forceinline__ void put(bool across, T sign, int stride, T* to) const {
    to += first_term(across) * stride + first_row(across);
    const int jump = across ? next(across) * stride : next(across);
#pragma unroll
    for (int e = 0; e < kEvery; ++e) {
      to[e * jump] = sign * value[e];
    }
  }

 private:
  __device__ static int first_row(bool across) {
    return across ? threadIdx.x % Count : threadIdx.x / kDepth;
  }

  __device__ static int first_term(bool across) {
    return across ? threadIdx.x / Count : threadIdx.x % kDepth;
  }

  // From one number of a thread to the next: in the rows of the memory, which are terms or rows.
  __device__ static int next(bool across) { return kTileThreads / (across ? Count : kDepth); }

  __device__ static int at_most_one_tile(int64_t count) {
    return static_cast<int>(count < kTileVectors ? count : kTileVectors);
  }
};

// One tile of the result of one part; what the next step needs is on its way meanwhile.
template <class T>
__device__ __forceinline__ void sum_product(
    const MatrixProduct<T>& op,
    int64_t row,
    int64_t column,
    int64_t part,
    LinearMemory<T>& memory,
    TileSum<T>& sum) {
  const int64_t begin = part * op.part, last = begin + op.part;
  const int64_t end = last < op.depth ? last : op.depth;
  const int64_t steps = end > begin ? (end - begin + kDepth - 1) / kDepth : 0;
  const int64_t all = op.other_left == nullptr ? steps : 2 * steps;
  Operand<T> left = op.left, right = op.right;
  Fetched<T, kTileVectors> lefts;
  Fetched<T, kTileCopies> rights;
#pragma unroll 1
  for (int64_t step = 0; step <= all; ++step) {
    if (step > 0) {
      __syncthreads();  // what was there has been read
      lefts.put(left.across, T(1), kRowA, memory.first());
      rights.put(right.across, step > steps ? op.sign : T(1), kRowB, memory.second());
      __syncthreads();
    }
    if (step == steps) {
      left.rows.at = op.other_left;
      right.rows.at = op.other_right;
    }
    if (step < all) {
      const int64_t depth = begin + (step < steps ? step : step - steps) * kDepth;
      lefts.fetch(left, row, op.rows, depth, end);
      rights.fetch(right, column, op.columns, depth, end);
    }
    if (step > 0) {
      multiply_tile(memory, sum);
    }
  }
}

template <class T>
__device__ __forceinline__ void write_product(
    const MatrixProduct<T>& op,
    int64_t row,
    int64_t column,
    int64_t part,
    const TileSum<T>& sum,
    LinearMemory<T>& memory) {
  stage_result(sum, memory);
#pragma unroll 1
  for (int n = threadIdx.x; n < kTileVectors * kTileCopies; n += kTileThreads) {
    const int64_t i = row + n / kTileCopies, j = column + n % kTileCopies;
    if (i < op.rows && j < op.columns) {
      const int64_t line = op.list == nullptr ? i : op.list[i];
      T* to = op.result + part * op.next_part + line * op.stride + j;
      const T value = memory.result()[n / kTileCopies * kRowB + n % kTileCopies];
      *to = op.add ? *to + value : value;
    }
  }
}

// Blocks of threads take tiles of one product.
template <class T>
__global__ void __launch_bounds__(kTileThreads, kResident)
    multiply_matrices(const __grid_constant__ MatrixProducts<T> list) {
  LinearMemory<T>& memory = linear_memory<T>();
  const MatrixProduct<T>& op = list.product[blockIdx.y];
  const int64_t across = (op.columns + kTileCopies - 1) / kTileCopies, tiles = op.tiles();
#pragma unroll 1
  for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const int64_t column = t % across * kTileCopies, part = t / across % op.parts;
    const int64_t row = t / across / op.parts * kTileVectors;
    TileSum<T> sum = {};
    sum_product(op, row, column, part, memory, sum);
    write_product(op, row, column, part, sum, memory);
  }
}

template <class T>
void multiply(const MatrixProducts<T>& list, void* stream) {
  int64_t most = 0;
  for (int n = 0; n < list.count; ++n) {
    const int64_t tiles = list.product[n].tiles();
    most = tiles > most ? tiles : most;
  }
  if (most > 0) {
    const dim3 grid(
        static_cast<unsigned>(most < kMostBlocks ? most : kMostBlocks),
        static_cast<unsigned>(list.count));
    launch_kernel(multiply_matrices<T>, grid, kTileThreads, 0, stream, list);
  }
}

}  // namespace
}  // namespace equigeo
