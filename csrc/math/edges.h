// Edges of a graph in compressed rows, read with a bounds check.
#pragma once

#include "math/host_device.h"

namespace equigeo {
namespace {

struct EdgeRange {
  int64_t begin;
  int64_t end;
};

EQUIGEO_HOST_DEVICE EdgeRange edges_of(const int64_t* ptr, int64_t row) {
  return {ptr[row], ptr[row + 1]};
}

// An index list whose entries must lie in [0, size). A stray entry reads row 0 and is reported: on
// the host through `stray`, on the device by a trap, since nothing may wait for the answer.
struct Index {
  const int64_t* entries;
  int64_t size;
  int* stray;

  EQUIGEO_HOST_DEVICE int64_t operator[](int64_t k) const {
    const int64_t entry = entries[k];
    if (static_cast<uint64_t>(entry) < static_cast<uint64_t>(size)) {
      return entry;
    }
#ifdef __CUDA_ARCH__
    __trap();
#else
    *stray = 1;
#endif
    return 0;
  }
};

template <class T>
struct Edge {
  int64_t row;
  T weight;
};

template <class T>
struct PlainEdges {
  Index row;

  EQUIGEO_HOST_DEVICE Edge<T> operator[](int64_t k) const { return {row[k], T(1)}; }
};

// Edges with a weight per head; `weights` points to the head in question.
template <class T>
struct WeightedEdges {
  Index row;
  const T* weights;
  int64_t heads;

  EQUIGEO_HOST_DEVICE Edge<T> operator[](int64_t k) const { return {row[k], weights[k * heads]}; }
};

// The same seen from the other end: `order` lists edges by source.
template <class T>
struct TransposedEdges {
  Index order;
  Index row;
  const T* weights;
  int64_t heads;

  EQUIGEO_HOST_DEVICE Edge<T> operator[](int64_t k) const {
    const int64_t edge = order[k];
    return {row[edge], weights[edge * heads]};
  }
};

}  // namespace
}  // namespace equigeo
