// A block takes the edges of one row of the first input, or a few rows with an edge each, a batch
// at a time; its warps take tiles of the rows. Matrices of all edges of a batch are staged once for
// all warps. Gradients of weights are written by the warp that has the channels; gradients of
// matrices add up in each warp, and are contracted to those of the second inputs over the warps, in
// order.
#include "kernels/cuda/differentiate_products.h"

#include "kernels/cuda/differentiate_tile.cuh"
#include "kernels/cuda/is_known.cuh"

namespace equigeo {
namespace {

// Blocks that a multiprocessor must have registers for. With one more of them some would spill.
template <class S, bool Second>
constexpr int kResident = sizeof(S) == 4 || (sizeof(S) == 2 && !Second) ? 3 : 2;

// Shared memory of a block that leaves room for as many.
constexpr int64_t kUsualBytes = 48 << 10;
// Numbers of the largest matrix of two inputs of degree up to 6.
constexpr int64_t kLargestMatrix = 25 * row_stride(13);

// Zero where some weights have no path, for the time being also where they have one.
template <class S>
__device__ void clear_weights(
    const DifferentiateProducts<S>& op, const EdgeRows* edges, int count) {
  if (op.grad_weight == nullptr || op.plan.totals->covers_weight) {
    return;
  }
  const int threads = kWarp * blockDim.y, thread = threadIdx.y * kWarp + threadIdx.x;
#pragma unroll 1
  for (int b = 0; b < count; ++b) {
    S* to = op.grad_weight + edges[b].own * op.plan.dim_weight;
#pragma unroll 1
    for (int64_t n = thread; n < op.plan.dim_weight; n += threads) {
      to[n] = S{};
    }
  }
}

template <class T>
__device__ void clear_numbers(T* numbers, int count) {
  const int threads = kWarp * blockDim.y, thread = threadIdx.y * kWarp + threadIdx.x;
#pragma unroll 1
  for (int n = thread; n < count; n += threads) {
    numbers[n] = 0;
  }
}

template <class S, class T>
__device__ void put_second(
    const DifferentiateProducts<S>& op, const EdgeRows* edges, int count, const T* sums) {
  const int64_t dim = op.plan.dim_y;
  const int threads = kWarp * blockDim.y, thread = threadIdx.y * kWarp + threadIdx.x;
#pragma unroll 1
  for (int64_t n = thread; n < count * dim; n += threads) {
    store(op.grad_y + edges[n / dim].own * dim + n % dim, sums[n]);
  }
}

// What all lanes have added to the gradients of positions, in order.
template <class T>
__device__ void put_positions(
    const SplineMemory<T>& memory, const EdgeRows* edges, int count, T* grad_position) {
#pragma unroll 1
  for (int b = threadIdx.y; b < count; b += blockDim.y) {
    T sum[1] = {};
#pragma unroll 1
    for (unsigned warp = 0; warp < blockDim.y; ++warp) {
      sum[0] += memory.sums[b][warp][threadIdx.x];
    }
    sum_lanes<1>(sum);
    if (threadIdx.x == 0) {
      grad_position[edges[b].own] = sum[0];
    }
  }
}

// All of a batch, whose rows of edges are there.
template <bool Second, class S, class T>
__device__ __forceinline__ void add_batch(
    const DifferentiateProducts<S>& op, BlockMemory<T>& memory, int count, bool first, bool last) {
  constexpr int kGradients = Second ? 2 : 1;  // the first set of these
  const BlockMatrices<T>& matrices = memory.matrices;
  const int all = op.plan.totals->numbers;
  Window window{0, 0};
#pragma unroll 1
  do {
    const bool is_first = window.end == 0;
    window = matrices.window_from(window.end, op.plan, all);
    if (threadIdx.x == 0 && threadIdx.y == 0) {
      memory.window = window;
      memory.first = first && is_first;
      memory.last = last && window.end == all;
    }
    stage_window(op.plan, matrices, 0, window, op.y, memory.edges, count);
    if (Second && op.tangents.y != nullptr) {
      stage_window(op.plan, matrices, 1, window, op.tangents.y, memory.edges, count);
    }
    if (op.grad_y != nullptr) {
      clear_numbers(matrices.set(kGradients), blockDim.y * matrices.numbers * matrices.edges);
    }
    __syncthreads();
    add_tiles<Second>(op, memory);
    __syncthreads();
    if (op.grad_y != nullptr) {
      contract_window(op.plan, matrices, kGradients, window, count);
      __syncthreads();
    }
  } while (window.end < all);
}

// `most` is the number of edges of a batch, as far as the available numbers suffice.
template <bool Second, class S>
__global__ void __launch_bounds__(kWarps* kWarp, kResident<S, Second>)
    differentiate_rows(DifferentiateProducts<S> op, int available, int most) {
  using T = Compute<S>;
  if (op.known && is_known(op.plan)) {
    return;
  }
  BlockMemory<T>& memory = static_shared<BlockMemory<T>>();
  const bool splines = kSplines<Second, S> && op.spline.position != nullptr;
  SplineMemory<T>* functions = dynamic_shared<SplineMemory<T>>();
  const bool leads = threadIdx.x == 0 && threadIdx.y == 0;
  if (leads) {
    const int sets = (Second ? 2 : 1) + blockDim.y;
    const BlockMatrices<T> fit = fit_matrices(
        reinterpret_cast<T*>(functions + splines), available, sets, most, op.plan.totals->numbers,
        static_cast<int>(op.plan.dim_y));
    memory.matrices = fit;
  }
  __syncthreads();
  const BlockMatrices<T>& matrices = memory.matrices;
  const bool own = op.edges.ptr == nullptr;
  const int64_t together = own ? matrices.edges : 1;
#pragma unroll 1
  for (int64_t row = blockIdx.x * together; row < op.edges.rows; row += gridDim.x * together) {
    const int64_t behind = row + together < op.edges.rows ? row + together : op.edges.rows;
    const EdgeRange segment = own ? EdgeRange{row, behind} : positions_of(op.edges, row);
    int64_t k = segment.begin;
#pragma unroll 1
    do {
      const int64_t left = segment.end - k;
      const int count = static_cast<int>(left < matrices.edges ? left : matrices.edges);
      if (leads) {
        memory.row = row;
        memory.count = count;
      }
      if (threadIdx.y == 0 && static_cast<int>(threadIdx.x) < count) {
        memory.edges[threadIdx.x] = rows_of_edge(op.edges, k + threadIdx.x);
      }
      clear_numbers(matrices.second(0), count * matrices.dim_y);
      __syncthreads();
      clear_weights(op, memory.edges, count);
      if (splines) {
        const int threads = kWarp * blockDim.y, thread = threadIdx.y * kWarp + threadIdx.x;
        stage_functions(
            op.spline, memory.edges, count, thread, threads, functions->values, functions->slopes);
        clear_numbers(&functions->sums[0][0][0], kBatch * kWarps * kWarp);
      }
      const bool last = own || k + count == segment.end;
      add_batch<Second>(op, memory, count, own || k == segment.begin, last);
      if (op.grad_y != nullptr) {
        put_second(op, memory.edges, count, matrices.second(0));
      }
      if (splines) {
        put_positions(*functions, memory.edges, count, op.grad_position);
      }
      __syncthreads();
      k += count;
    } while (k < segment.end);
  }
}

// Shared memory for a few edges, and in as many warps, as the device allows; an error where not
// even one fits.
template <bool Second, class S>
const char* launch_gradients(const DifferentiateProducts<S>& op, void* stream) {
  using T = Compute<S>;
  int device = 0, limit = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  const int64_t available = limit - static_cast<int64_t>(sizeof(BlockMemory<T>));
  const int64_t warps = op.plan.count < 1 ? 1 : op.plan.count < kWarps ? op.plan.count : kWarps;
  const int64_t sets = (Second ? 2 : 1) + warps;
  const int64_t least = (sets * kLargestMatrix + op.plan.dim_y) * static_cast<int64_t>(sizeof(T));
  const int64_t usual = least > kUsualBytes ? least : kUsualBytes;
  const bool splines = op.spline.position != nullptr;
  const int64_t bytes = usual + (splines ? static_cast<int64_t>(sizeof(SplineMemory<T>)) : 0);
  if (bytes > available) {
    return "rows of the second input are too long for the shared memory of this device";
  }
  const bool own = op.edges.ptr == nullptr;
  const int64_t fit = own ? op.edges.rows / kManyBlocks : kBatch;
  const int64_t most = fit < 1 ? 1 : fit < kBatch ? fit : kBatch;
  const int64_t units = own ? (op.edges.rows + most - 1) / most : op.edges.rows;
  const auto kernel = differentiate_rows<Second, S>;
  cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  const dim3 block(kWarp, static_cast<unsigned>(warps));
  launch_kernel(
      kernel, grid_of(units), block, bytes, stream, op, static_cast<int>(usual / sizeof(T)),
      static_cast<int>(most));
  return launch_error();
}

}  // namespace

template <class S>
const char* differentiate_products(const DifferentiateProducts<S>& op, void* stream) {
  if (op.edges.rows == 0) {
    return nullptr;
  }
  return op.second ? launch_gradients<true>(op, stream) : launch_gradients<false>(op, stream);
}

template const char* differentiate_products(const DifferentiateProducts<float>&, void*);
template const char* differentiate_products(const DifferentiateProducts<double>&, void*);
template const char* differentiate_products(const DifferentiateProducts<Bf16>&, void*);

}  // namespace equigeo
