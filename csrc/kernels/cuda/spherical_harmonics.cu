#include "args/spherical_harmonics.h"

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launch.h"
#include "math/spherical_harmonics.h"

namespace equigeo {
namespace {

constexpr int kMostDegrees = 512;       // arguments of a kernel are few
constexpr int64_t kShared = 48 * 1024;  // bytes that every block may have

// An op whose columns are found on the host.
template <class Op>
struct Call {
  Op op;
  int32_t center[kMostDegrees];
  int stride;  // of rows in shared memory; 0 if they do not fit
};

// Rows of 32 neighbouring points, one per thread of a warp, which passes through them in columns.
// Where they fit they are staged in shared memory, so that global memory sees whole rows.
template <class T>
struct Rows {
  T* tile;  // of the warp, or null
  int stride;
  int64_t first, count, dim;

  __device__ T* own(T* tensor, int lane) const {
    return tile != nullptr ? tile + lane * stride : tensor + (first + lane) * dim;
  }

  __device__ const T* load(const T* tensor, int lane) const {
    if (tile == nullptr) {
      return tensor + (first + lane) * dim;
    }
    __syncwarp();
    for (int64_t r = 0; r < count; ++r) {
      for (int64_t c = lane; c < dim; c += kWarp) {
        tile[r * stride + c] = tensor[(first + r) * dim + c];
      }
    }
    __syncwarp();
    return tile + lane * stride;
  }

  __device__ void store(T* tensor, int lane) const {
    if (tile == nullptr) {
      return;
    }
    __syncwarp();
    for (int64_t r = 0; r < count; ++r) {
      for (int64_t c = lane; c < dim; c += kWarp) {
        tensor[(first + r) * dim + c] = tile[r * stride + c];
      }
    }
    __syncwarp();
  }
};

template <class T>
__device__ Vector<T> load_point(const T* vectors, int64_t p) {
  return {vectors[3 * p], vectors[3 * p + 1], vectors[3 * p + 2]};
}

template <class T>
__device__ void store_point(const Vector<T>& v, T* vectors, int64_t p) {
  vectors[3 * p] = v.x;
  vectors[3 * p + 1] = v.y;
  vectors[3 * p + 2] = v.z;
}

template <class T>
__device__ void run_warp(
    const SphericalHarmonics<T>& op, const Rows<T>& rows, int lane, bool active) {
  T* row = rows.own(op.out, lane);
  if (active) {
    harmonics(op, load_point(op.x, rows.first + lane), row);
  }
  rows.store(op.out, lane);
}

template <class T>
__device__ void run_warp(
    const SphericalHarmonicsBackward<T>& op, const Rows<T>& rows, int lane, bool active) {
  const int64_t p = rows.first + lane;
  const T* grad = rows.load(op.grad, lane);
  if (active) {
    store_point(harmonics_backward(op, load_point(op.x, p), grad), op.grad_x, p);
  }
}

template <class T>
__device__ void run_warp(
    const SphericalHarmonicsDoubleBackward<T>& op, const Rows<T>& rows, int lane, bool active) {
  const int64_t p = rows.first + lane;
  const T* grad = rows.load(op.grad, lane);
  T* slopes = rows.own(op.to_grad, lane);
  if (active) {
    const Vector<T> x = load_point(op.x, p), along = load_point(op.along, p);
    store_point(harmonics_double_backward(op, x, along, grad, slopes), op.to_x, p);
  }
  rows.store(op.to_grad, lane);
}

template <template <class> class Op, class T>
__global__ void harmonics_of_points(const __grid_constant__ Call<Op<T>> call) {
  Op<T> op = call.op;
  op.center = call.center;
  const int lane = threadIdx.x % kWarp;
  T* tile =
      call.stride > 0 ? dynamic_shared<T>() + (threadIdx.x / kWarp) * kWarp * call.stride : nullptr;
  for (int64_t first = first_item() - lane; first < op.points; first += item_stride()) {
    const int64_t left = op.points - first, count = left < kWarp ? left : kWarp;
    run_warp(op, Rows<T>{tile, call.stride, first, count, op.dim}, lane, lane < count);
  }
}

template <template <class> class Op, class T>
const char* run(const Op<T>& op, void*, void* stream) {
  if (op.table.lmax >= kMostDegrees) {
    return "degrees above 511";
  }
  Call<Op<T>> call{op, {}, 0};
  for (int64_t l = 0; l <= op.table.lmax; ++l) {
    call.center[l] = op.center[l];
  }
  // An odd stride spreads a column over the banks.
  const int64_t stride = op.dim | 1, tile = kWarp * stride * static_cast<int64_t>(sizeof(T));
  int64_t warps = kShared / tile;
  warps = warps < 1 || warps > 8 ? 8 : warps;
  const bool staged = warps * tile <= kShared;
  call.stride = staged ? static_cast<int>(stride) : 0;
  const int64_t threads = warps * kWarp, blocks = (op.points + threads - 1) / threads;
  if (blocks > 0) {
    launch_kernel(
        harmonics_of_points<Op, T>, grid_of(blocks), static_cast<unsigned>(threads),
        staged ? warps * tile : 0, stream, call);
  }
  return launch_error();
}

}  // namespace

EQUIGEO_DEFINE_LAUNCHES(SphericalHarmonics)
EQUIGEO_DEFINE_LAUNCHES(SphericalHarmonicsBackward)
EQUIGEO_DEFINE_LAUNCHES(SphericalHarmonicsDoubleBackward)

}  // namespace equigeo
