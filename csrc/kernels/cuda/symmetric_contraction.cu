#include "args/symmetric_contraction.h"

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launch.h"
#include "math/edges.h"
#include "math/symmetric_contraction.h"

namespace equigeo {
namespace {

// The channel of one thread in the rows of a tensor. Threads beyond the last channel compute that
// one again and store nothing.
struct Column {
  int64_t channels, channel;
  bool active;
};

__device__ inline Column column_of(int64_t block, int64_t channels) {
  const int64_t channel = block * kWarp + threadIdx.x % kWarp;
  const bool active = channel < channels;
  return {channels, active ? channel : channels - 1, active};
}

// Where component i of a column lies in a row.
__device__ inline int64_t address(const RowLayout& layout, const Column& column, int64_t i) {
  int64_t first = 0, s = 0;
  if (layout.all > 0) {
    first = i - i % layout.all;
    s = first / layout.all;
  } else {
    for (; i >= first + layout.dim[s]; ++s) {
      first += layout.dim[s];
    }
  }
  return first * column.channels + column.channel * layout.dim[s] + (i - first);
}

template <class T>
struct RowSource {
  const RowLayout& layout;
  Column column;
  const T* row;

  __device__ T load(int64_t i, int) const { return row[address(layout, column, i)]; }
};

template <class T>
struct RowSink {
  const RowLayout& layout;
  Column column;
  T* row;

  template <class Number>
  __device__ void store(int64_t i, int, Number number) const {
    if (column.active) {
      row[address(layout, column, i)] = last_part(number);
    }
  }
};

template <class T>
struct WeightSource {
  Column column;
  const T* set;

  __device__ T load(int64_t k, int) const { return set[k * column.channels + column.channel]; }
};

template <class T>
struct WeightSink {
  Column column;
  T* set;

  template <class Number>
  __device__ void add(int64_t k, int, Number number) const {
    if (column.active) {
      set[k * column.channels + column.channel] += last_part(number);
    }
  }
};

// Numbers with a derivative come from two places.
template <class T, class Source>
struct DualSource {
  Source value, slope;

  __device__ Dual<T> load(int64_t i, int n) const { return {value.load(i, n), slope.load(i, n)}; }
};

// Nodes of the threads of a warp side by side in shared memory.
template <class Number, class T>
using WarpNodes = NodeArray<Number, 1, kWarp * kWidth<Number, T>, T>;

template <class Number, class T>
__device__ WarpNodes<Number, T> warp_nodes(int64_t nodes, int64_t arrays, int64_t which) {
  constexpr int64_t kNumber = kWidth<Number, T>;
  const int64_t warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  return {dynamic_shared<T>() + (warp * arrays + which) * nodes * kWarp * kNumber + lane * kNumber};
}

// One warp per row and block of channels.
template <class T>
__global__ void contract_rows(const __grid_constant__ SymmetricContraction<T> op) {
  const Index index{op.index, op.sets, nullptr};
  const auto nodes = warp_nodes<T, T>(op.table.nodes, 1, 0);
  const int64_t blocks = (op.channels + kWarp - 1) / kWarp;
  for (int64_t i = first_item() / kWarp; i < op.rows * blocks; i += item_stride() / kWarp) {
    const int64_t r = i / blocks;
    const Column column = column_of(i % blocks, op.channels);
    const T* x = op.x + r * op.channels * op.table.variables;
    const T* weight = op.weight + index[r] * op.table.weights * op.channels;
    T* z = op.z + r * op.channels * op.table.components;
    make_nodes(op.table, RowSource<T>{op.in, column, x}, nodes);
    contract(op.table, nodes, WeightSource<T>{column, weight}, RowSink<T>{op.out, column, z});
  }
}

template <class Number, bool Full, class T, class Grad, class X, class Weight>
__device__ void gradients_of_row(
    const SymmetricContractionGradients<T>& op,
    int64_t r,
    const Column& column,
    const Grad& grad,
    const X& x,
    const Weight& weight,
    T* to_weight) {
  const auto nodes = warp_nodes<Number, T>(op.table.nodes, 2, 0);
  const auto slopes = warp_nodes<Number, T>(op.table.nodes, 2, 1);
  T* to_grad = op.to_grad + r * op.channels * op.table.components;
  make_nodes(op.table, x, nodes);
  contract_backward<Full>(
      op.table, nodes, slopes, grad, weight, RowSink<T>{op.out, column, to_grad},
      WeightSink<T>{column, to_weight});
  const RowSink<T> to_x{op.in, column, op.to_x + r * op.channels * op.table.variables};
  for (int64_t i = 0; i < op.table.variables; ++i) {
    to_x.store(i, 0, slopes.load(1 + i, 0));
  }
}

// One warp per run and block of channels.
template <class Number, bool Full, class T>
__global__ void gradients_of_runs(const __grid_constant__ SymmetricContractionGradients<T> op) {
  constexpr bool kDual = sizeof(Number) > sizeof(T);
  const Index order{op.order, op.rows, nullptr};
  const int64_t blocks = (op.channels + kWarp - 1) / kWarp;
  const int64_t set_size = op.table.weights * op.channels;
  const int64_t in = op.channels * op.table.variables, out = op.channels * op.table.components;
  for (int64_t i = first_item() / kWarp; i < op.runs * blocks; i += item_stride() / kWarp) {
    const int64_t number = i / blocks;
    const Run run = find_run(op.ptr, op.sets, number);
    const Column column = column_of(i % blocks, op.channels);
    T* to_weight = run.alone ? op.to_weight + run.set * set_size : op.partial + number * set_size;
    if (Full && column.active && (run.first || run.begin < run.end)) {
      for (int64_t k = 0; k < op.table.weights; ++k) {
        to_weight[k * op.channels + column.channel] = 0;
      }
    }
    const WeightSource<T> weight{column, op.weight + run.set * set_size};
    for (int64_t k = run.begin; k < run.end; ++k) {
      const int64_t r = order[k];
      const RowSource<T> grad{op.out, column, op.grad + r * out}, x{op.in, column, op.x + r * in};
      if constexpr (kDual) {
        const RowSource<T> grad_slope{op.out, column, op.grad_tangent + r * out};
        const RowSource<T> x_slope{op.in, column, op.x_tangent + r * in};
        const WeightSource<T> weight_slope{column, op.weight_tangent + run.set * set_size};
        gradients_of_row<Number, Full>(
            op, r, column, DualSource<T, RowSource<T>>{grad, grad_slope},
            DualSource<T, RowSource<T>>{x, x_slope},
            DualSource<T, WeightSource<T>>{weight, weight_slope}, to_weight);
      } else {
        gradients_of_row<Number, Full>(op, r, column, grad, x, weight, to_weight);
      }
    }
  }
}

// One thread per weight and channel of the sets that have several runs.
template <class T>
__global__ void sum_runs(const __grid_constant__ SymmetricContractionGradients<T> op) {
  const int64_t set_size = op.table.weights * op.channels;
  for (int64_t i = first_item(); i < op.sets * set_size; i += item_stride()) {
    const int64_t set = i / set_size, count = op.ptr[set + 1] - op.ptr[set];
    if (count <= kRowsOfRun) {
      continue;
    }
    const int64_t first = first_run(op.ptr, set);
    T sum = 0;
    for (int64_t n = first; n < first + (count + kRowsOfRun - 1) / kRowsOfRun; ++n) {
      sum += op.partial[n * set_size + i % set_size];
    }
    op.to_weight[i] = sum;
  }
}

// Launch whole warps, as many to a block as its shared memory holds.
template <class... Parameters, class... Arguments>
const char* launch_warps(
    void (*kernel)(Parameters...),
    int64_t warps,
    int64_t bytes,
    void* stream,
    const Arguments&... arguments) {
  constexpr int64_t kPlenty = 48 << 10, kMost = kThreads / kWarp;
  if (warps == 0) {
    return nullptr;
  }
  const int64_t fit = kPlenty / bytes, together = fit < 1 ? 1 : fit < kMost ? fit : kMost;
  if (bytes > kPlenty) {
    const cudaError_t status = cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
    if (status != cudaSuccess) {
      return cudaGetErrorName(status);
    }
  }
  const int64_t blocks = (warps + together - 1) / together;
  const unsigned threads = static_cast<unsigned>(together * kWarp);
  launch_kernel(kernel, grid_of(blocks), threads, together * bytes, stream, arguments...);
  return launch_error();
}

template <class T>
const char* run(const SymmetricContraction<T>& op, void*, void* stream) {
  if (op.channels == 0) {  // arrays without elements may be null
    return nullptr;
  }
  const int64_t blocks = (op.channels + kWarp - 1) / kWarp;
  const int64_t bytes = op.table.nodes * kWarp * sizeof(T);
  return launch_warps(contract_rows<T>, op.rows * blocks, bytes, stream, op);
}

template <class Number, bool Full, class T>
const char* run_gradients(const SymmetricContractionGradients<T>& op, void* stream) {
  const int64_t blocks = (op.channels + kWarp - 1) / kWarp;
  const int64_t bytes = 2 * op.table.nodes * kWarp * sizeof(Number);
  return launch_warps(gradients_of_runs<Number, Full, T>, op.runs * blocks, bytes, stream, op);
}

template <class T>
const char* run(const SymmetricContractionGradients<T>& op, void*, void* stream) {
  if (op.channels == 0) {  // arrays without elements may be null
    return nullptr;
  }
  if (op.only_x) {
    return run_gradients<T, false>(op, stream);
  }
  const char* error =
      op.tangents ? run_gradients<Dual<T>, true>(op, stream) : run_gradients<T, true>(op, stream);
  if (error != nullptr) {
    return error;
  }
  launch_threads(sum_runs<T>, op.sets * op.table.weights * op.channels, stream, op);
  return launch_error();
}

}  // namespace

EQUIGEO_DEFINE_LAUNCHES(SymmetricContraction)
EQUIGEO_DEFINE_LAUNCHES(SymmetricContractionGradients)

}  // namespace equigeo
