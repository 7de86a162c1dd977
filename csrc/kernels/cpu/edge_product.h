// One path of a channelwise product, for all channels of one row, forward and backward.
//
// First input, output and their gradients are in the layout of kernels (see components.h).
#pragma once

#include "kernels/cpu/edge_gradients.h"
#include "kernels/cpu/edge_matrices.h"

namespace equigeo {
namespace {

template <class T>
struct Apply {
  const T* matrix;
  int64_t d3;
  Components<const T> x;
  const T* weight;
  Components<T> out;
  bool add;

  template <int D1>
  void with() const {
    constexpr int kW = kWidth<WidePack<T>, T>;
    constexpr int kN = kManyNarrow ? (D1 <= 5 ? 4 : 2) : D1 <= 5 ? 2 : 1;
    int64_t u = 0;
    for (; u + kN * kW <= x.stride; u += kN * kW) {
      block<D1, kN>(u);
    }
    for (; u < x.stride; u += kW) {
      block<D1, 1>(u);
    }
  }

  template <int D1, int N>
  EQUIGEO_HOST_DEVICE void block(int64_t u) const {
    apply_matrix<WidePack<T>, D1, N, kWidth<WidePack<T>, T>>(
        matrix, d3, x.data + u, x.stride, weight ? weight + u : nullptr, out.data + u, out.stride,
        add);
  }
};

// Whether the weights of a path are used in the row of the tensor.
EQUIGEO_HOST_DEVICE bool weights_in_row(const Path& path) {
  return path.y.mul == 1 && path.x.mul % kLanes == 0;
}

// Weights of copy v, padded; `row` may be used in place.
template <class T>
inline const T* weights_of(const Path& path, const T* row, int64_t v, T* scratch) {
  if (row == nullptr || path.weight < 0) {
    return nullptr;
  }
  const T* from = row + path.weight;
  if (weights_in_row(path)) {
    return from;
  }
  for (int64_t u = 0; u < path.x.mul; ++u) {
    scratch[u] = from[u * path.y.mul + v];
  }
  for (int64_t u = path.x.mul; u < padded(path.x.mul); ++u) {
    scratch[u] = 0;
  }
  return scratch;
}

// Write weights of copy v where they are in the row.
template <class T>
inline void spread_weights(const Path& path, const T* weights, int64_t v, T* row) {
  for (int64_t u = 0; u < path.x.mul; ++u) {
    row[path.weight + u * path.y.mul + v] = weights[u];
  }
}

// What a path of one row needs beside its arguments.
template <class T>
struct PathScratch {
  T* weight;
  T* grad_weight;
  T* weighted;
  T* gradient;

  static int64_t size(const ChannelwisePlan<T>& plan) {
    return Scratch<T>::round_up(plan.largest_matrix * kWidth<WidePack<T>, T>) +
           3 * Scratch<T>::round_up(plan.largest_x);
  }

  PathScratch(const ChannelwisePlan<T>& plan, Scratch<T>& scratch)
      : weight(scratch.take(plan.largest_x)),
        grad_weight(scratch.take(plan.largest_x)),
        weighted(scratch.take(plan.largest_x)),
        gradient(scratch.take(plan.largest_matrix * kWidth<WidePack<T>, T>)) {}
};

// One row, which is a lane of a block of matrices.
template <class T>
struct PathRow {
  const EdgeMatrices<T>& matrices;
  int64_t lane;
  Components<const T> x;
  const T* weight;  // all weights of the row, or null
};

template <class T>
inline void path_forward(
    const ChannelwisePlan<T>& plan,
    int64_t p,
    const PathRow<T>& row,
    Components<T> out,
    bool add,
    const PathScratch<T>& scratch) {
  const Path& path = plan.path[p];
  for (int64_t v = 0; v < path.y.mul; ++v) {
    const T* w = weights_of(path, row.weight, v, scratch.weight);
    const T* matrix = row.matrices.matrix(p, v) + row.lane;
    for_components(path.x.d, Apply<T>{matrix, path.out.d, row.x, w, out, add || v > 0});
  }
}

// Gradients of one row; null pointers are not wanted. `grad_y` holds a register per component.
template <class T>
struct RowGradients {
  T* x;       // segment of the path in the layout of kernels, added to
  T* weight;  // row of the tensor
  T* y;
};

// Add the gradient of copy v of the second input, from that of its matrix.
template <class T>
inline void add_second_gradient(
    const ChannelwisePlan<T>& plan, int64_t p, int64_t v, const T* gradient, T* grad_y) {
  constexpr int64_t kW = kWidth<WidePack<T>, T>;
  const Path& path = plan.path[p];
  const Second second = second_input(path, plan.ir_mul, v);
  contract_gradient<WidePack<T>>(plan, path, gradient, grad_y + second.first * kW, second.step);
}

// The same from what the matrix acts on, with scratch memory for its gradient.
template <class T>
inline void add_second_gradient(
    const ChannelwisePlan<T>& plan,
    int64_t p,
    int64_t v,
    Components<const T> grad,
    Components<const T> weighted,
    T* gradient,
    T* grad_y) {
  const Path& path = plan.path[p];
  for_components(path.x.d, OuterProduct<T>{path.out.d, grad, weighted, gradient});
  add_second_gradient(plan, p, v, gradient, grad_y);
}

template <class T>
inline void path_backward(
    const ChannelwisePlan<T>& plan,
    int64_t p,
    const PathRow<T>& row,
    Components<const T> grad,
    const RowGradients<T>& into,
    const PathScratch<T>& scratch) {
  const Path& path = plan.path[p];
  const bool in_row = weights_in_row(path);
  for (int64_t v = 0; v < path.y.mul; ++v) {
    const T* w = weights_of(path, row.weight, v, scratch.weight);
    T* grad_weight = nullptr;
    if (into.weight != nullptr && path.weight >= 0) {
      grad_weight = in_row ? into.weight + path.weight : scratch.grad_weight;
    }
    T* weighted = into.y ? scratch.weighted : nullptr;
    for_components(
        path.x.d, Transpose<T>{
                      row.matrices.matrix(p, v) + row.lane, path.out.d, grad, row.x, w, into.x,
                      grad_weight, weighted});
    if (grad_weight != nullptr && !in_row) {
      spread_weights(path, grad_weight, v, into.weight);
    }
    if (into.y != nullptr) {
      add_second_gradient(plan, p, v, grad, {weighted, row.x.stride}, scratch.gradient, into.y);
    }
  }
}

// Add up the lanes of a row of registers.
template <class T>
inline void sum_registers(const T* registers, int64_t count, T* out) {
  using Pack = WidePack<T>;
  constexpr int64_t kW = kWidth<Pack, T>;
  for (int64_t n = 0; n < count; ++n) {
    out[n] = sum_lanes<T, EQUIGEO_PACK_BYTES>(Memory<Pack, T>::load(registers + n * kW));
  }
}

}  // namespace
}  // namespace equigeo
