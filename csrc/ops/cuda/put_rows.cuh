// Writing what the lanes of a warp hold to a row of features.
#pragma once

#include "ops/cuda/staged_matrices.cuh"

namespace equigeo {
namespace {

// Numbers of shared memory that put_rows needs.
template <int R, int N>
constexpr int kPutNumbers = R * N * kWarp;

// Write, or add, the rows of a tile. Where components are inside, those of one channel are
// neighbours in memory: they pass through shared memory, so that lanes write neighbours too.
template <int R, int N, class T>
__device__ __forceinline__ void put_rows(
    const Tile& tile, bool ir_mul, const T (&values)[R][N], bool add, T* segment, T* shared) {
  const Channels channels = channels_of(ir_mul, tile.mul, tile.d, tile.channel);
  if (ir_mul || tile.d == 1 || tile.rows < tile.d) {
    T* to = segment + channels.first * channels.step + tile.row * channels.component;
#pragma unroll
    for (int k = 0; k < R; ++k) {
#pragma unroll
      for (int n = 0; n < N; ++n) {
        if (k < tile.rows && channels.has(n)) {
          T* at = to + k * channels.component + n * kWarp * channels.step;
          *at = add ? *at + values[k][n] : values[k][n];
        }
      }
    }
    return;
  }
  __syncwarp();  // whoever still reads what was there
#pragma unroll
  for (int k = 0; k < R; ++k) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
      if (k < tile.d) {
        shared[(threadIdx.x + n * kWarp) * tile.d + k] = values[k][n];
      }
    }
  }
  __syncwarp();
  const int width = N * kWarp < tile.mul - tile.channel ? N * kWarp : tile.mul - tile.channel;
  T* to = segment + tile.channel * tile.d;
#pragma unroll 1
  for (int n = threadIdx.x; n < width * tile.d; n += kWarp) {
    to[n] = add ? to[n] + shared[n] : shared[n];
  }
}

}  // namespace
}  // namespace equigeo
