#include "args/grid_product.h"

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launch.h"
#include "math/expansion.h"

namespace equigeo {
namespace {

constexpr int64_t kShared = 48 * 1024;  // bytes that every block may have
constexpr int64_t kMostWarps = 8;       // in a block

// What a warp keeps of its sample, in shared memory. Every number is written by one lane, always
// the same, so that sums have one order.
template <class T>
struct Sample {
  const T *x, *y;     // coefficients
  T* z;               // of the product
  T *first, *second;  // the factors along a parallel, by order
  T* product;         // values along it
};

template <class T>
__host__ __device__ int64_t line_size(const GridProduct<T>& op) {
  return 2 * (op.first.lmax + op.second.lmax + 1) + op.longitudes;
}

template <class T>
__host__ __device__ int64_t staged_size(const GridProduct<T>& op) {
  return coefficients_of(op.first) + coefficients_of(op.second) + coefficients_of(op.third);
}

template <class T>
__device__ void copy(const T* from, int64_t size, int lane, T* to) {
  for (int64_t i = lane; i < size; i += kWarp) {
    to[i] = from[i];
  }
}

template <class T>
__device__ Sample<T> stage(
    const GridProduct<T>& op, bool staged, int64_t row, int lane, T* shared) {
  const int64_t a = coefficients_of(op.first), b = coefficients_of(op.second);
  const int64_t c = coefficients_of(op.third);
  Sample<T> sample{op.x + row * a, op.y + row * b, op.out + row * c, nullptr, nullptr, nullptr};
  if (staged) {
    copy(sample.x, a, lane, shared);
    copy(sample.y, b, lane, shared + a);
    sample.x = shared;
    sample.y = shared + a;
    sample.z = shared + a + b;
    shared += a + b + c;
  }
  for (int64_t i = lane; i < c; i += kWarp) {
    sample.z[i] = 0;
  }
  sample.first = shared;
  sample.second = sample.first + orders_of(op.first);
  sample.product = sample.second + orders_of(op.second);
  __syncwarp();
  return sample;
}

// One summand along one parallel: its product of values, added to what is there.
template <class T>
__device__ void add_values(
    const GridProduct<T>& op,
    const Sample<T>& sample,
    int64_t s,
    int64_t latitude,
    bool add,
    int lane) {
  for (int64_t m = lane; m < orders_of(op.first); m += kWarp) {
    sample.first[m] = along_meridian(op.first, op.latitudes, s, m, latitude, sample.x);
  }
  for (int64_t m = lane; m < orders_of(op.second); m += kWarp) {
    sample.second[m] = along_meridian(op.second, op.latitudes, s, m, latitude, sample.y);
  }
  __syncwarp();
  for (int64_t j = lane; j < op.longitudes; j += kWarp) {
    const T value = along_parallel(op.first, op.longitudes, s, j, sample.first) *
                    along_parallel(op.second, op.longitudes, s, j, sample.second);
    sample.product[j] = add ? sample.product[j] + value : value;
  }
  __syncwarp();
}

template <class T>
__device__ void multiply(const GridProduct<T>& op, const Sample<T>& sample, int lane) {
  const int64_t each = op.summands / op.third.summands;  // that are analyzed together
  for (int64_t latitude = 0; latitude < op.latitudes; ++latitude) {
    for (int64_t t = 0; t < op.third.summands; ++t) {
      for (int64_t s = t * each; s < (t + 1) * each; ++s) {
        add_values(op, sample, s, latitude, s > t * each, lane);
      }
      for (int64_t m = lane; m < orders_of(op.third); m += kWarp) {
        const T part = analyze_parallel(op.third, op.longitudes, t, m, sample.product);
        analyze_meridian(op.third, op.latitudes, t, m, latitude, part, sample.z);
      }
      __syncwarp();
    }
  }
}

// One warp for each sample: its lanes go over orders, then longitudes, then orders.
template <class T>
__global__ void multiply_samples(const __grid_constant__ GridProduct<T> op, bool staged) {
  const int lane = threadIdx.x % kWarp;
  const int64_t warps = blockDim.x / kWarp, warp = threadIdx.x / kWarp;
  const int64_t size = line_size(op) + (staged ? staged_size(op) : 0);
  T* shared = dynamic_shared<T>() + warp * size;
  for (int64_t row = blockIdx.x * warps + warp; row < op.samples; row += gridDim.x * warps) {
    const Sample<T> sample = stage(op, staged, row, lane, shared);
    multiply(op, sample, lane);
    if (staged) {
      const int64_t c = coefficients_of(op.third);
      copy(sample.z, c, lane, op.out + row * c);
    }
    __syncwarp();
  }
}

template <class T>
const char* run(const GridProduct<T>& op, void*, void* stream) {
  const int64_t line = line_size(op) * static_cast<int64_t>(sizeof(T));
  const int64_t all = line + staged_size(op) * static_cast<int64_t>(sizeof(T));
  const bool staged = all <= kShared;
  const int64_t bytes = staged ? all : line;
  if (bytes > kShared) {
    return "degrees too high for shared memory";
  }
  const int64_t fitting = kShared / bytes, warps = fitting < kMostWarps ? fitting : kMostWarps;
  const int64_t blocks = (op.samples + warps - 1) / warps;
  if (blocks > 0) {
    const unsigned threads = static_cast<unsigned>(warps * kWarp);
    launch_kernel(multiply_samples<T>, grid_of(blocks), threads, warps * bytes, stream, op, staged);
  }
  return launch_error();
}

}  // namespace

EQUIGEO_DEFINE_LAUNCHES(GridProduct)

}  // namespace equigeo
