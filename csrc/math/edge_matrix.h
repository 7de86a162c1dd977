// A coupling of one edge as a small matrix.
//
// All channels of an edge are coupled with the same second operand. Contracting it into the
// coefficients first leaves a matrix M of d3 x d1 numbers, which then acts on every channel: out_k
// = sum_i M_ki (w x_i). Rows of components are `stride` elements apart.
#pragma once

#include "args/path_table.h"
#include "math/host_device.h"

namespace equigeo {
namespace {

// M_ki = sum_j C_ijk y_j for the lanes of a pack, one edge each. Numbers of one edge are `kStep`
// apart in `y` and `matrix`; the matrix has rows k of d1 numbers.
template <class Pack, class T>
EQUIGEO_HOST_DEVICE void edge_matrix(
    const PathTable<T>& table, const Path& path, const T* y, int64_t y_stride, T* matrix) {
  constexpr int64_t kStep = kWidth<Pack, T>;
  for (int64_t n = 0; n < path.x.d * path.out.d; ++n) {
    Memory<Pack, T>::store(matrix + n * kStep, Pack{});
  }
  for (int64_t n = path.first; n < path.last; ++n) {
    const Entry entry = table.entry[n];
    T* into = matrix + (entry.k * path.x.d + entry.i) * kStep;
    const Pack term = table.value[n] * Memory<Pack, T>::load(y + entry.j * y_stride * kStep);
    Memory<Pack, T>::store(into, Memory<Pack, T>::load(into) + term);
  }
}

// What one row k of the matrix, its numbers S apart, gives to N packs of channels:
// sum += sum_i M_ki v_i.
template <class Pack, int D1, int N, int S, class T>
EQUIGEO_HOST_DEVICE void add_row(const T* row, const Pack (&values)[D1][N], Pack (&sum)[N]) {
  EQUIGEO_UNROLL
  for (int i = 0; i < D1; ++i) {
    EQUIGEO_UNROLL
    for (int n = 0; n < N; ++n) {
      sum[n] += row[i * S] * values[i][n];
    }
  }
}

// The transpose: back_i += M_ki g.
template <class Pack, int D1, int N, int S, class T>
EQUIGEO_HOST_DEVICE void add_transposed_row(const T* row, const Pack (&g)[N], Pack (&back)[D1][N]) {
  EQUIGEO_UNROLL
  for (int i = 0; i < D1; ++i) {
    EQUIGEO_UNROLL
    for (int n = 0; n < N; ++n) {
      back[i][n] += row[i * S] * g[n];
    }
  }
}

// What one pack of channels gives to column i of the gradient of K rows of M: sum_ki += g_k v.
template <class Pack, int D1, int K>
EQUIGEO_HOST_DEVICE void add_to_column(const Pack (&g)[K], Pack value, int i, Pack (&sum)[K][D1]) {
  EQUIGEO_UNROLL
  for (int k = 0; k < K; ++k) {
    sum[k][i] += g[k] * value;
  }
}

// out_k += or = sum_i M_ki (w x_i) for the N packs of channels at the given pointers. A null weight
// is one; numbers of the matrix are S apart.
template <class Pack, int D1, int N, int S, class T>
EQUIGEO_HOST_DEVICE void apply_matrix(
    const T* matrix,
    int64_t d3,
    const T* x,
    int64_t x_stride,
    const T* weight,
    T* out,
    int64_t out_stride,
    bool add) {
  constexpr int kStep = kWidth<Pack, T>;
  Pack weighted[D1][N];
  EQUIGEO_UNROLL
  for (int n = 0; n < N; ++n) {
    EQUIGEO_UNROLL
    for (int i = 0; i < D1; ++i) {
      weighted[i][n] = Memory<Pack, T>::load(x + i * x_stride + n * kStep);
    }
    if (weight != nullptr) {
      const Pack w = Memory<Pack, T>::load(weight + n * kStep);
      EQUIGEO_UNROLL
      for (int i = 0; i < D1; ++i) {
        weighted[i][n] *= w;
      }
    }
  }
  for (int64_t k = 0; k < d3; ++k) {
    Pack sum[N] = {};
    if (add) {
      EQUIGEO_UNROLL
      for (int n = 0; n < N; ++n) {
        sum[n] = Memory<Pack, T>::load(out + k * out_stride + n * kStep);
      }
    }
    add_row<Pack, D1, N, S>(matrix + k * D1 * S, weighted, sum);
    EQUIGEO_UNROLL
    for (int n = 0; n < N; ++n) {
      Memory<Pack, T>::store(out + k * out_stride + n * kStep, sum[n]);
    }
  }
}

// Gradients of apply_matrix for N packs of channels: grad_x_i += w T_i and grad_weight (+)=
// sum_i x_i T_i with T_i = sum_k M_ki g_k. Also gives w x_i, which the gradient of M needs.
// What has a null pointer is not wanted; `add` is of the weights alone.
template <class Pack, int D1, int N, int S, class T>
EQUIGEO_HOST_DEVICE void transpose_matrix(
    const T* matrix,
    int64_t d3,
    const T* grad,
    int64_t grad_stride,
    const T* x,
    const T* weight,
    int64_t x_stride,
    T* grad_x,
    T* grad_weight,
    T* weighted,
    bool add = false) {
  constexpr int kStep = kWidth<Pack, T>;
  Pack back[D1][N] = {};
  for (int64_t k = 0; k < d3; ++k) {
    Pack g[N];
    EQUIGEO_UNROLL
    for (int n = 0; n < N; ++n) {
      g[n] = Memory<Pack, T>::load(grad + k * grad_stride + n * kStep);
    }
    add_transposed_row<Pack, D1, N, S>(matrix + k * D1 * S, g, back);
  }
  EQUIGEO_UNROLL
  for (int n = 0; n < N; ++n) {
    Pack w = {};
    w += T(1);
    if (weight != nullptr) {
      w = Memory<Pack, T>::load(weight + n * kStep);
    }
    if (grad_x != nullptr) {
      EQUIGEO_UNROLL
      for (int i = 0; i < D1; ++i) {
        T* into = grad_x + i * x_stride + n * kStep;
        Memory<Pack, T>::store(into, Memory<Pack, T>::load(into) + w * back[i][n]);
      }
    }
    if (grad_weight != nullptr || weighted != nullptr) {
      Pack slope = {};
      EQUIGEO_UNROLL
      for (int i = 0; i < D1; ++i) {
        const Pack value = Memory<Pack, T>::load(x + i * x_stride + n * kStep);
        slope += value * back[i][n];
        if (weighted != nullptr) {
          Memory<Pack, T>::store(weighted + i * x_stride + n * kStep, w * value);
        }
      }
      if (grad_weight != nullptr) {
        T* into = grad_weight + n * kStep;
        Memory<Pack, T>::store(into, add ? Memory<Pack, T>::load(into) + slope : slope);
      }
    }
  }
}

// One row of the gradient of M, each entry spread over the lanes of a pack: Q_ki = or += sum over
// channels of (w x_i) g_k, for K rows at once.
template <class Pack, int D1, int K, class T>
EQUIGEO_HOST_DEVICE void matrix_gradient(
    const T* grad,
    int64_t grad_stride,
    const T* weighted,
    int64_t x_stride,
    int64_t channels,
    T* gradient,
    bool add = false) {
  constexpr int kStep = kWidth<Pack, T>;
  Pack sum[K][D1] = {};
  if (add) {
    EQUIGEO_UNROLL
    for (int k = 0; k < K; ++k) {
      EQUIGEO_UNROLL
      for (int i = 0; i < D1; ++i) {
        sum[k][i] = Memory<Pack, T>::load(gradient + (k * D1 + i) * kStep);
      }
    }
  }
  for (int64_t u = 0; u < channels; u += kStep) {
    Pack g[K];
    EQUIGEO_UNROLL
    for (int k = 0; k < K; ++k) {
      g[k] = Memory<Pack, T>::load(grad + k * grad_stride + u);
    }
    EQUIGEO_UNROLL
    for (int i = 0; i < D1; ++i) {
      add_to_column(g, Memory<Pack, T>::load(weighted + i * x_stride + u), i, sum);
    }
  }
  EQUIGEO_UNROLL
  for (int k = 0; k < K; ++k) {
    EQUIGEO_UNROLL
    for (int i = 0; i < D1; ++i) {
      Memory<Pack, T>::store(gradient + (k * D1 + i) * kStep, sum[k][i]);
    }
  }
}

// grad_y_j += sum_ik C_ijk Q_ki, lane by lane. Entries come sorted by j, whose sum stays in a
// register.
template <class Pack, class Table, class T>
EQUIGEO_HOST_DEVICE void contract_gradient(
    const Table& table, const Path& path, const T* gradient, T* grad_y, int64_t y_stride) {
  constexpr int64_t kStep = kWidth<Pack, T>;
  int64_t n = path.first;
  while (n < path.last) {
    const int64_t j = table.entry_by_second[n].j;
    T* into = grad_y + j * y_stride * kStep;
    Pack sum = Memory<Pack, T>::load(into);
    for (; n < path.last && table.entry_by_second[n].j == j; ++n) {
      const Entry entry = table.entry_by_second[n];
      const int64_t place = entry.k * path.x.d + entry.i;
      sum += table.value_by_second[n] * Memory<Pack, T>::load(gradient + place * kStep);
    }
    Memory<Pack, T>::store(into, sum);
  }
}

}  // namespace
}  // namespace equigeo
