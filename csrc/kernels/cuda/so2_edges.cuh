// What kernels of convolutions by orders need of the plan and of a chunk of edges.
#pragma once

#include "kernels/cuda/carver.h"
#include "kernels/cuda/edge_batch.cuh"
#include "math/edge_rotation.h"
#include "math/so2_orders.h"
#include "math/so2_torque.h"

namespace equigeo {
namespace {

#ifdef EQUIGEO_SMALL_CHUNKS
constexpr int64_t kLeastOfPart = 3;  // on the simulator small problems have several
#else
constexpr int64_t kLeastOfPart = 256;
#endif

// Numbers that no problem changes.
template <class T>
struct SO2Tables {
  Recurrence recurrence;
  T torque[kMostDegree + 1][kMostDegree];  // by degree and order
  T one;
};

template <class T>
__global__ void fill_tables(SO2Tables<T>* tables) {
  constexpr int kMost = kMostDegree, kRows = 2 * kMost + 1;
  for (int n = threadIdx.x; n < (kMost + 1) * kRows; n += blockDim.x) {
    const int l = n / kRows, m = n % kRows - kMost;
    if (l >= 2 && -l <= m && m <= l) {
      tables->recurrence.fill(l, m);
    }
    if (0 <= m && m < l) {
      tables->torque[l][m] = torque_factor<T>(l, m);
    }
  }
  if (threadIdx.x == 0) {
    tables->one = 1;
  }
}

// Terms on their way to the device: as arguments of a kernel, so that nothing waits for them.
struct TermBatch {
  static constexpr int kMost = 24;
  SO2Term term[kMost];
};

__global__ void keep_terms(const __grid_constant__ TermBatch batch, int count, SO2Term* to) {
  if (static_cast<int>(threadIdx.x) < count) {
    to[threadIdx.x] = batch.term[threadIdx.x];
  }
}

inline void copy_terms(const SO2Term* from, int64_t count, SO2Term* to, void* stream) {
  for (int64_t first = 0; first < count; first += TermBatch::kMost) {
    TermBatch batch{};
    int together = 0;
    for (; together < TermBatch::kMost && first + together < count; ++together) {
      batch.term[together] = from[first + together];
    }
    launch_kernel(keep_terms, 1, kWarp, 0, stream, batch, together, to + first);
  }
}

// The plan with terms on the device, and the tables.
template <class T>
struct DevicePlan {
  SO2Plan plan;
  SO2Tables<T>* tables;
  SO2Term *in, *out;

  DevicePlan(const SO2Plan& given, Carver& memory)
      : plan(given),
        tables(memory.take<SO2Tables<T>>(1)),
        in(memory.take<SO2Term>(given.terms_in)),
        out(memory.take<SO2Term>(given.terms_out)) {}

  void make(void* stream) {
    launch_kernel(fill_tables<T>, 1, kThreads, 0, stream, tables);
    copy_terms(plan.in, plan.terms_in, in, stream);
    copy_terms(plan.out, plan.terms_out, out, stream);
    plan.in = in;
    plan.out = out;
  }
};

// Numbers of one edge in orders up to `last`.
inline int64_t order_numbers(const int64_t* widths, int64_t last) {
  int64_t numbers = 0;
  for (int64_t m = 0; m <= last; ++m) {
    numbers += (m == 0 ? 1 : 2) * widths[m];
  }
  return numbers;
}

template <class T>
Orders<T> cut_orders(const int64_t* widths, int64_t last, int64_t edges, Carver& memory) {
  Orders<T> found{};
  found.tile = edges;
  for (int64_t m = 0; m <= last; ++m) {
    found.stride[m] = widths[m];
    found.at[m] = memory.take<T>((m == 0 ? 1 : 2) * edges * widths[m]);
  }
  return found;
}

// Edges at some positions of a list, one after another: what they add to the same row is together.
template <class T>
struct EdgeChunk {
  EdgeList list;
  const T* vectors;   // (edges, 3)
  const T* envelope;  // (edges,) or null
  int64_t first, count;
  int64_t *row, *own, *other;  // of each
  T* inverse;                  // of its length, zero where it has none
  T* factor;                   // of its message, zero where it has no direction
};

template <class T>
EdgeChunk<T> cut_edges(
    const EdgeList& list, const T* vectors, const T* envelope, int64_t most, Carver& memory) {
  EdgeChunk<T> edges{list, vectors, envelope, 0, 0, nullptr, nullptr, nullptr, nullptr, nullptr};
  edges.row = memory.take<int64_t>(most);
  edges.own = memory.take<int64_t>(most);
  edges.other = memory.take<int64_t>(most);
  edges.inverse = memory.take<T>(most);
  edges.factor = memory.take<T>(most);
  return edges;
}

// The last row that begins at position k or before.
__device__ inline int64_t row_of_position(const EdgeList& list, int64_t k) {
  int64_t low = 0, high = list.rows - 1;
  while (low < high) {
    const int64_t middle = (low + high + 1) / 2;
    if (list.ptr[middle] <= k) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

template <class T>
__global__ void list_edges(const EdgeChunk<T> edges) {
  for (int64_t e = first_item(); e < edges.count; e += item_stride()) {
    const EdgeRows rows = rows_of_edge(edges.list, edges.first + e);
    const T* r = edges.vectors + 3 * rows.own;
    double frame[9];
    const T inverse = static_cast<T>(edge_frame(r[0], r[1], r[2], frame));
    edges.row[e] = row_of_position(edges.list, edges.first + e);
    edges.own[e] = rows.own;
    edges.other[e] = rows.other;
    edges.inverse[e] = inverse;
    edges.factor[e] = inverse == 0                ? T(0)
                      : edges.envelope == nullptr ? T(1)
                                                  : edges.envelope[rows.own];
  }
}

// Rows of a result before anything is added to them, and a look at the offsets of their edges.
template <class T>
__global__ void clear_rows(const EdgeList list, T* rows, int64_t dim) {
  for (int64_t n = first_item(); n < list.rows * dim; n += item_stride()) {
    if (n % dim == 0) {
      positions_of(list, n / dim);
    }
    rows[n] = 0;
  }
}

// Call run(chunk) for all edges, one chunk after another.
template <class T, class Run>
void for_chunks(EdgeChunk<T>& edges, int64_t most, void* stream, const Run& run) {
  for (int64_t first = 0; first < edges.list.edges; first += most) {
    const int64_t left = edges.list.edges - first;
    edges.first = first;
    edges.count = left < most ? left : most;
    launch_threads(list_edges<T>, edges.count, stream, edges);
    run();
  }
}

}  // namespace
}  // namespace equigeo
