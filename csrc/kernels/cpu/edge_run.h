// Edges of a convolution, one after the other.
#pragma once

#include "kernels/cpu/channelwise_conv.h"
#include "kernels/cpu/edge_product_tangents.h"
#include "kernels/cpu/panel_product.h"
#include "kernels/cpu/product_rows.h"
#include "kernels/cpu/spline.h"
#include "math/edges.h"

namespace equigeo {
namespace {

// Matrices of a run of edges, a register of them at a time, and their radial weights.
template <class S, class Row>
class EdgeRun {
 public:
  using T = Compute<S>;
  static constexpr int64_t kEdges = EdgeMatrices<T>::kEdges;

  EdgeRun(
      const ChannelwisePlan<T>& plan,
      Scratch<T>& memory,
      const S* y,
      const S* weight,
      int64_t weight_stride,
      Row row)
      : plan_(plan),
        matrices_(plan, memory),
        y_(y),
        weight_(weight),
        weight_stride_(weight_stride),
        row_(row),
        wide_y_(memory.take(scratch_row<S>(plan.dim_y))),
        wide_weight_(memory.take(scratch_row<S>(plan.dim_weight))) {}

  static int64_t size(const ChannelwisePlan<T>& plan) {
    return EdgeMatrices<T>::size(plan) + Scratch<T>::round_up(scratch_row<S>(plan.dim_y)) +
           Scratch<T>::round_up(scratch_row<S>(plan.dim_weight));
  }

  void add_radial(const RadialWeights<T>& radial, T* weights) {
    radial_ = &radial;
    radial_weights_ = weights;
  }

  // `weights` has room for two rows if derivatives are wanted.
  void add_spline(const SplineWeights<T>& spline, T* weights, bool derivatives, int* stray) {
    spline_ = &spline;
    first_ = {spline.first, spline.rows - spline.functions + 1, stray};
    radial_weights_ = weights;
    weight_slopes_ = derivatives ? weights + spline.stride : nullptr;
  }

  // Derivatives of the weights of the edge by its position.
  const T* weight_slopes() const { return weight_slopes_; }

  // Go to edge k of a run that goes on to `last`.
  void go(int64_t k, int64_t last) {
    if (k >= end_) {
      begin_ = k;
      end_ = k + kEdges < last ? k + kEdges : last;
      load();
    }
    lane_ = k - begin_;
    edge_ = row_(k);
  }

  int64_t edge() const { return edge_; }

  PathRow<T> at(Components<const T> x) const { return {matrices_, lane_, x, weights_}; }

  // The same of tangents, whose matrices and weights are null where they are zero.
  PathTangents<T> tangents(Components<const T> x) const {
    return {x, y_ != nullptr ? &matrices_ : nullptr, weights_};
  }

  // The weights of the edge, once for all of its plan.
  void read_weights() {
    if (spline_ != nullptr) {
      if constexpr (!kCopies<S>) {
        evaluate_spline(
            *spline_, first_[edge_], spline_->position[edge_], radial_weights_, weight_slopes_);
      }
      weights_ = radial_weights_;
      return;
    }
    weights_ =
        radial_ != nullptr
            ? radial_weights_ + lane_ * radial_->stride
            : read_row(row_or_null(weight_, edge_, weight_stride_), plan_.dim_weight, wide_weight_);
  }

 private:
  void load() {
    if (y_ == nullptr) {
      return;
    }
    for (int64_t k = begin_; k < end_; ++k) {
      const S* y = y_ + row_(k) * plan_.dim_y;
      matrices_.load(k - begin_, read_row(y, plan_.dim_y, wide_y_));
    }
    matrices_.compute();
    if constexpr (!kCopies<S>) {
      if (radial_ != nullptr) {
        const T* hidden[kLanes];
        for (int64_t k = begin_; k < end_; ++k) {
          hidden[k - begin_] = radial_->hidden + row_(k) * radial_->num_hidden;
        }
        multiply_panel(
            hidden, end_ - begin_, radial_->num_hidden, radial_->matrix, radial_->stride,
            radial_weights_);
      }
    }
  }

  const ChannelwisePlan<T>& plan_;
  EdgeMatrices<T> matrices_;
  const S* y_;
  const S* weight_;
  int64_t weight_stride_;
  Row row_;
  T* wide_y_;
  T* wide_weight_;
  const RadialWeights<T>* radial_ = nullptr;
  const SplineWeights<T>* spline_ = nullptr;
  Index first_{};
  T* weight_slopes_ = nullptr;
  T* radial_weights_ = nullptr;
  const T* weights_ = nullptr;
  int64_t begin_ = 0, end_ = 0, lane_ = 0, edge_ = 0;
};

template <class T>
Components<const T> first_input(const ChannelwisePlan<T>& plan, int64_t p, const T* row) {
  return {row + plan.layout[p].x, padded(plan.path[p].x.mul)};
}

template <class T>
Components<T> output(const ChannelwisePlan<T>& plan, int64_t p, T* row) {
  return {row + plan.layout[p].out, padded(plan.path[p].x.mul)};
}

template <class T>
Components<const T> arriving(const ChannelwisePlan<T>& plan, int64_t p, const T* row) {
  return {row + plan.layout[p].out, padded(plan.path[p].x.mul)};
}

}  // namespace
}  // namespace equigeo
