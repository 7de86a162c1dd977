// Parts of plans that are made again only if what they are made of has changed.
#pragma once

#include "kernels/cuda/launch.cuh"

namespace equigeo {
namespace {

// Whether something holds for all of some numbers, for all threads of a block.
template <class Holds>
__device__ bool hold_all(int64_t count, const Holds& holds) {
  int& failing = static_shared<int>();
  if (threadIdx.x == 0) {
    failing = 0;
  }
  __syncthreads();
  for (int64_t n = threadIdx.x; n < count; n += blockDim.x) {
    if (!holds(n)) {
      atomicAdd(&failing, 1);
    }
  }
  __syncthreads();
  const bool all = failing == 0;
  __syncthreads();  // everyone has read it
  return all;
}

// What a block reads of a table, and where the last call has kept it: rows of numbers.
template <class Row>
struct Read {
  const Row* rows;
  Row* last;
  int64_t count;

  __device__ int64_t numbers() const { return count * (sizeof(Row) / sizeof(int64_t)); }
  __device__ bool is_the_same() const {
    const auto* now = reinterpret_cast<const int64_t*>(rows);
    const auto* before = reinterpret_cast<const int64_t*>(last);
    return hold_all(numbers(), [&](int64_t n) { return now[n] == before[n]; });
  }
  __device__ void keep() const {
    for (int64_t n = threadIdx.x; n < numbers(); n += blockDim.x) {
      reinterpret_cast<int64_t*>(last)[n] = reinterpret_cast<const int64_t*>(rows)[n];
    }
  }
};

// Call make() unless this block has made its part of the same rows before: of each block `parts`
// has whether it has, or is null if nothing is kept. A trap on the way leaves the part not made.
template <class Make, class... Rows>
__device__ void make_if_changed(int* parts, const Make& make, const Read<Rows>&... read) {
  if (parts == nullptr) {
    return make();
  }
  int* made = parts + blockIdx.x;
  if (*made != 0 && (read.is_the_same() && ...)) {
    return;
  }
  const auto set_made = [&](int value) {
    __syncthreads();  // everyone has read it, or made all of it
    if (threadIdx.x == 0) {
      *made = value;
    }
  };
  set_made(0);
  make();
  (read.keep(), ...);
  set_made(1);
}

}  // namespace
}  // namespace equigeo
