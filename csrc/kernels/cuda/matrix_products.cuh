// Several products of matrices by one launch, each of which may be summed by parts.
#pragma once

#include "kernels/cuda/staged_matrices.cuh"
#include "kernels/cuda/stored.cuh"

namespace equigeo {
namespace {

// Threads are 16 x 8, each of which has 8 x 8 numbers of a tile, as four squares of 4 x 4: a warp
// reads neighbouring words of 16 bytes.
constexpr int kSquare = 4;
constexpr int kSquaresDown = 16, kSquaresAcross = 8;
constexpr int kProductThreads = kSquaresDown * kSquaresAcross;
constexpr int kTileRows = 2 * kSquaresDown * kSquare, kTileColumns = 2 * kSquaresAcross * kSquare;
constexpr int kTerms = 16;  // of the sums that are staged at once

// Blocks that a multiprocessor must have registers for: none spills.
template <class T>
constexpr int kProductResident = sizeof(T) == 4 ? 3 : 2;

// Staged operands, (kTerms, rows) and (kTerms, columns), with some banks of shared memory more in
// every line.
template <class T>
struct alignas(16) ProductMemory {
  static constexpr int kRowLine = kTileRows + 4, kColumnLine = kTileColumns + 4;
  T rows[kTerms * kRowLine], columns[kTerms * kColumnLine];
};

// By square down, square across, row and column.
template <class T>
using ProductSum = T[2][2][kSquare][kSquare];

// sum += the product of what is staged.
template <class T>
__device__ __forceinline__ void multiply_staged(
    const ProductMemory<T>& memory, ProductSum<T>& sum) {
  using Memory = ProductMemory<T>;
  const T* rows = memory.rows + threadIdx.x / kSquaresAcross * kSquare;
  const T* columns = memory.columns + threadIdx.x % kSquaresAcross * kSquare;
#pragma unroll 4
  for (int k = 0; k < kTerms; ++k) {
    T a[2][kSquare], b[2][kSquare];
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      load_row<kSquare>(rows + k * Memory::kRowLine + s * (kTileRows / 2), a[s]);
      load_row<kSquare>(columns + k * Memory::kColumnLine + s * (kTileColumns / 2), b[s]);
    }
#pragma unroll
    for (int n = 0; n < 4 * kSquare * kSquare; ++n) {
      const int i = n / kSquare % kSquare, j = n % kSquare;
      const int down = n / (2 * kSquare * kSquare), across = n / (kSquare * kSquare) % 2;
      sum[down][across][i][j] += a[down][i] * b[across][j];
    }
  }
}

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
    const int64_t down = (rows + kTileRows - 1) / kTileRows;
    return down * ((columns + kTileColumns - 1) / kTileColumns) * parts;
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
// rows [first, first + Count), terms [depth, depth + kTerms).
template <class T, int Count>
struct Fetched {
  static constexpr int kEvery = Count * kTerms / kProductThreads;
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
    return across ? threadIdx.x % Count : threadIdx.x / kTerms;
  }

  __device__ static int first_term(bool across) {
    return across ? threadIdx.x / Count : threadIdx.x % kTerms;
  }

  // From one number of a thread to the next: in the rows of the memory, which are terms or rows.
  __device__ static int next(bool across) { return kProductThreads / (across ? Count : kTerms); }

  __device__ static int at_most_one_tile(int64_t count) {
    return static_cast<int>(count < kTileRows ? count : kTileRows);
  }
};

// One tile of the result of one part; what the next step needs is on its way meanwhile.
template <class T>
__device__ __forceinline__ void sum_product(
    const MatrixProduct<T>& op,
    int64_t row,
    int64_t column,
    int64_t part,
    ProductMemory<T>& memory,
    ProductSum<T>& sum) {
  const int64_t begin = part * op.part, last = begin + op.part;
  const int64_t end = last < op.depth ? last : op.depth;
  const int64_t steps = (end - begin + kTerms - 1) / kTerms;  // not positive where nothing is left
  const int64_t all = op.other_left == nullptr ? steps : 2 * steps;
  Operand<T> left = op.left, right = op.right;
  Fetched<T, kTileRows> lefts;
  Fetched<T, kTileColumns> rights;
#pragma unroll 1
  for (int64_t step = 0; step <= all; ++step) {
    if (step > 0) {
      __syncthreads();  // what was there has been read
      lefts.put(left.across, T(1), ProductMemory<T>::kRowLine, memory.rows);
      rights.put(
          right.across, step > steps ? op.sign : T(1), ProductMemory<T>::kColumnLine,
          memory.columns);
      __syncthreads();
    }
    if (step == steps) {
      left.rows.at = op.other_left;
      right.rows.at = op.other_right;
    }
    if (step < all) {
      const int64_t depth = begin + (step < steps ? step : step - steps) * kTerms;
      lefts.fetch(left, row, op.rows, depth, end);
      rights.fetch(right, column, op.columns, depth, end);
    }
    if (step > 0) {
      multiply_staged(memory, sum);
    }
  }
}

template <class T>
__device__ __forceinline__ void write_product(
    const MatrixProduct<T>& op,
    int64_t row,
    int64_t column,
    int64_t part,
    const ProductSum<T>& sum) {
  column += threadIdx.x % kSquaresAcross * kSquare;
#pragma unroll
  for (int n = 0; n < 2 * kSquare; ++n) {
    const int down = n / kSquare, inner = threadIdx.x / kSquaresAcross * kSquare + n % kSquare;
    const int64_t i = row + down * (kTileRows / 2) + inner;
    if (i >= op.rows) {
      continue;
    }
    const int64_t line = op.list == nullptr ? i : op.list[i];
    T* to = op.result + part * op.next_part + line * op.stride + column;
#pragma unroll
    for (int across = 0; across < 2; ++across) {
#pragma unroll
      for (int j = 0; j < kSquare; ++j) {
        const int jump = across * (kTileColumns / 2) + j;
        if (column + jump < op.columns) {
          const T value = sum[down][across][n % kSquare][j];
          to[jump] = op.add ? to[jump] + value : value;
        }
      }
    }
  }
}

// Blocks of threads take tiles of one product.
template <class T>
__global__ void __launch_bounds__(kProductThreads, kProductResident<T>)
    multiply_matrices(const __grid_constant__ MatrixProducts<T> list) {
  ProductMemory<T>& memory = static_shared<ProductMemory<T>>();
  const MatrixProduct<T>& op = list.product[blockIdx.y];
  const int64_t across = (op.columns + kTileColumns - 1) / kTileColumns, tiles = op.tiles();
#pragma unroll 1
  for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const int64_t column = t % across * kTileColumns, part = t / across % op.parts;
    const int64_t row = t / across / op.parts * kTileRows;
    ProductSum<T> sum = {};
    sum_product(op, row, column, part, memory, sum);
    write_product(op, row, column, part, sum);
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
    const dim3 grid(grid_of(most), static_cast<unsigned>(list.count));
    launch_kernel(multiply_matrices<T>, grid, kProductThreads, 0, stream, list);
  }
}

}  // namespace
}  // namespace equigeo
