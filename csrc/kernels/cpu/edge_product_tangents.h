// One path of a channelwise product differentiated twice, for all channels of one row.
//
// The product and what arrives at it make one form F(g, x, y, w), linear in each argument, whose
// derivatives are the gradients. Along tangents a of x, b of y and c of the weights it changes by
// F(g, a, y, w) + F(g, x, b, w) + F(g, x, y, c), and these are its derivatives. With M the matrix
// of y and N that of b, both of the coupling, p = w a + c x, and T = sum_k M_k g_k, U = sum_k N_k
// g_k:
//
//   by g: M p + N (w x),   by x: c T + w U,   by w: a T + x U,   by y: the coupling with p and g.
#pragma once

#include "kernels/cpu/edge_product.h"

namespace equigeo {
namespace {

// Tangents of one row. Null pointers are zeros.
template <class T>
struct PathTangents {
  Components<const T> x;
  const EdgeMatrices<T>* matrices;
  const T* weight;  // all weights of the row
};

// Derivatives of one row, where null pointers are not wanted.
template <class T>
struct RowSlopes {
  Components<T> grad;  // segment of the path in the layout of kernels
  bool add;            // to it
  RowGradients<T> others;
};

// out = w a + c x for all channels, where a or c is null if it is zero, and w if it is one.
template <class T>
inline void weighted_sum(
    Components<const T> a,
    const T* w,
    Components<const T> x,
    const T* c,
    int64_t d,
    Components<T> out) {
  using Pack = WidePack<T>;
  constexpr int64_t kW = kWidth<Pack, T>;
  for (int64_t i = 0; i < d; ++i) {
    for (int64_t u = 0; u < out.stride; u += kW) {
      Pack sum = {};
      if (a.data != nullptr) {
        sum = Memory<Pack, T>::load(a.data + i * a.stride + u);
        if (w != nullptr) {
          sum *= Memory<Pack, T>::load(w + u);
        }
      }
      if (c != nullptr) {
        sum += Memory<Pack, T>::load(c + u) * Memory<Pack, T>::load(x.data + i * x.stride + u);
      }
      Memory<Pack, T>::store(out.data + i * out.stride + u, sum);
    }
  }
}

// What a path of one row needs beside its arguments.
template <class T>
struct TangentScratch {
  PathScratch<T> path;
  T* weight;  // tangents

  static int64_t size(const ChannelwisePlan<T>& plan) {
    return PathScratch<T>::size(plan) + Scratch<T>::round_up(plan.largest_x);
  }

  TangentScratch(const ChannelwisePlan<T>& plan, Scratch<T>& scratch)
      : path(plan, scratch), weight(scratch.take(plan.largest_x)) {}
};

// One copy of the second input.
template <class T>
struct CopyTangents {
  const T* matrix;
  const T* matrix_tangent;  // or null
  Components<const T> x, x_tangent;
  const T* weight;
  const T* weight_tangent;  // or null
};

// By the gradient that arrives. `sum` is p, or null where it is zero.
template <class T>
inline void slopes_of_grad(
    const Path& path,
    const CopyTangents<T>& copy,
    Components<const T> sum,
    Components<T> out,
    bool add) {
  if (sum.data != nullptr) {
    for_components(path.x.d, Apply<T>{copy.matrix, path.out.d, sum, nullptr, out, add});
    add = true;
  }
  if (copy.matrix_tangent != nullptr) {
    for_components(
        path.x.d, Apply<T>{copy.matrix_tangent, path.out.d, copy.x, copy.weight, out, add});
    add = true;
  }
  if (!add) {
    fill_zero(out.data, path.out.d * out.stride);
  }
}

// By x, added, and by the weights of the copy, written.
template <class T>
inline void slopes_of_channels(
    const Path& path,
    const CopyTangents<T>& copy,
    Components<const T> grad,
    T* to_x,
    T* to_weight) {
  T* x_by_weight = copy.weight_tangent != nullptr ? to_x : nullptr;
  T* weight_by_x = copy.x_tangent.data != nullptr ? to_weight : nullptr;
  if (x_by_weight != nullptr || weight_by_x != nullptr) {
    const Components<const T> factor = weight_by_x != nullptr ? copy.x_tangent : copy.x;
    for_components(
        path.x.d, Transpose<T>{
                      copy.matrix, path.out.d, grad, factor, copy.weight_tangent, x_by_weight,
                      weight_by_x, nullptr});
  }
  if (copy.matrix_tangent != nullptr && (to_x != nullptr || to_weight != nullptr)) {
    for_components(
        path.x.d, Transpose<T>{
                      copy.matrix_tangent, path.out.d, grad, copy.x, copy.weight, to_x, to_weight,
                      nullptr, weight_by_x != nullptr});
  } else if (to_weight != nullptr && weight_by_x == nullptr) {
    fill_zero(to_weight, copy.x.stride);
  }
}

template <class T>
inline void path_double_backward(
    const ChannelwisePlan<T>& plan,
    int64_t p,
    const PathRow<T>& row,
    const PathTangents<T>& along,
    Components<const T> grad,
    const RowSlopes<T>& into,
    const TangentScratch<T>& scratch) {
  const Path& path = plan.path[p];
  const RowGradients<T>& others = into.others;
  const bool in_row = weights_in_row(path);
  for (int64_t v = 0; v < path.y.mul; ++v) {
    const CopyTangents<T> copy{
        row.matrices.matrix(p, v) + row.lane,
        along.matrices ? along.matrices->matrix(p, v) + row.lane : nullptr,
        row.x,
        along.x,
        weights_of(path, row.weight, v, scratch.path.weight),
        weights_of(path, along.weight, v, scratch.weight)};
    Components<T> sum{nullptr, row.x.stride};
    const bool moves = copy.x_tangent.data != nullptr || copy.weight_tangent != nullptr;
    if (moves && (into.grad.data != nullptr || others.y != nullptr)) {
      sum.data = scratch.path.weighted;
      weighted_sum(copy.x_tangent, copy.weight, row.x, copy.weight_tangent, path.x.d, sum);
    }
    const Components<const T> moved{sum.data, sum.stride};
    if (into.grad.data != nullptr) {
      slopes_of_grad(path, copy, moved, into.grad, into.add || v > 0);
    }
    T* to_weight = nullptr;
    if (others.weight != nullptr && path.weight >= 0) {
      to_weight = in_row ? others.weight + path.weight : scratch.path.grad_weight;
    }
    slopes_of_channels(path, copy, grad, others.x, to_weight);
    if (to_weight != nullptr && !in_row) {
      spread_weights(path, to_weight, v, others.weight);
    }
    if (others.y != nullptr && moved.data != nullptr) {
      add_second_gradient(plan, p, v, grad, moved, scratch.path.gradient, others.y);
    }
  }
}

}  // namespace
}  // namespace equigeo
