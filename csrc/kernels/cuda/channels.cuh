// Channels of a segment of features as the lanes of a warp hold them.
#pragma once

#include "kernels/cuda/edge_batch.cuh"
#include "kernels/cuda/plan.h"
#include "kernels/cuda/stored.cuh"

namespace equigeo {
namespace {

// A lane has the channels first, first + 32, ... of a segment.
struct Channels {
  int step, component;  // from one channel, one component to the next
  int first;
  int left;  // from the first one on, not positive where the lane has none

  __device__ bool has(int n) const { return n * kWarp < left; }
  __device__ int at(int n) const { return first + n * kWarp; }
};

__device__ inline Channels channels_of(bool ir_mul, int mul, int d, int first) {
  const int lane = threadIdx.x;
  return {ir_mul ? 1 : d, ir_mul ? mul : 1, first + lane, mul - first - lane};
}

// Components [first, first + count) of the channels n, n + 1, ... of the lane; zero where there are
// none. Where the segment is not global memory alone, that must be said.
template <int D, int N, bool Global = true, class S, class T>
__device__ __forceinline__ void load_channels(
    const S* segment, const Channels& channels, int n, int first, int count, T (&to)[D][N]) {
  const S* from = segment + channels.at(n) * channels.step + first * channels.component;
#pragma unroll
  for (int i = 0; i < D; ++i) {
    const S* at = from;
#pragma unroll
    for (int m = 0; m < N; ++m) {
      to[i][m] = channels.has(n + m) && i < count ? load<Global>(at) : T(0);
      at += kWarp * channels.step;
    }
    from += channels.component;
  }
}

// Rows of a result, whose sums may take several batches of edges; in between they are kept as they
// are computed.
template <class S>
struct Target {
  S* to;
  Compute<S>* sums;
  bool first, last;  // whether nothing was added before, nothing will be later

  __device__ void put(int at, Compute<S> value) const {
    value = first ? value : sums[at] + value;
    if (last) {
      store(to + at, value);
    } else {
      sums[at] = value;
    }
  }
};

// Numbers of shared memory that put_rows needs.
template <int R, int N>
constexpr int kPutNumbers = R * N * kWarp;

// Write the rows of a tile to its segment. Where components are inside, those of one channel are
// neighbours in memory: they pass through shared memory, so that lanes write neighbours too.
template <int R, int N, class S, class T>
__device__ __forceinline__ void put_rows(
    const Tile& tile, bool ir_mul, const T (&values)[R][N], const Target<S>& target, T* shared) {
  const Channels channels = channels_of(ir_mul, tile.mul, tile.d, tile.channel);
  if (ir_mul || tile.d == 1 || tile.rows < tile.d) {
    const int step = kWarp * channels.step;
    int at = channels.first * channels.step + tile.row * channels.component;
#pragma unroll
    for (int k = 0; k < R; ++k, at += channels.component) {
#pragma unroll
      for (int n = 0; n < N; ++n) {
        if (k < tile.rows && channels.has(n)) {
          target.put(at + n * step, values[k][n]);
        }
      }
    }
    return;
  }
  __syncwarp();  // what was there has been read
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
#pragma unroll 1
  for (int n = threadIdx.x; n < width * tile.d; n += kWarp) {
    target.put(tile.channel * tile.d + n, shared[n]);
  }
}

}  // namespace
}  // namespace equigeo
