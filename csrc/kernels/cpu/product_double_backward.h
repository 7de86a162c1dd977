// A channelwise product differentiated twice, row by row.
#pragma once

#include "kernels/cpu/channelwise_product.h"
#include "kernels/cpu/edge_product_tangents.h"
#include "kernels/cpu/product_rows.h"
#include "kernels/cpu/run_blocks.h"

namespace equigeo {
namespace {

template <class S>
class ProductDoubleBackward {
 public:
  using T = Compute<S>;
  static constexpr int64_t kEdges = EdgeMatrices<T>::kEdges;

  explicit ProductDoubleBackward(const PlannedChannelwiseProductDoubleBackward<S>& op)
      : op_(op),
        plan_(op.plan),
        memory_(size(op)),
        scratch_(plan_, memory_),
        matrices_(plan_, memory_),
        matrices_tangent_(plan_, memory_),
        rows_(plan_, memory_),
        tangent_rows_(plan_, memory_),
        arrived_(memory_.take(scratch_row<S>(plan_.dim_out))),
        to_grad_(plan_.dim_out, op.stream, memory_),
        to_x_(plan_.dim_x, false, memory_),
        to_y_(plan_.dim_y, false, memory_),
        to_weight_(plan_.dim_weight, false, memory_),
        x_(plan_, memory_.take(plan_.padded_x)),
        x_tangent_(plan_, memory_.take(plan_.padded_x)),
        slope_(memory_.take(plan_.padded_x)),
        grad_(plan_, memory_.take(plan_.largest_output)),
        output_(memory_.take(plan_.largest_output)),
        lanes_(memory_.take(plan_.dim_y * kEdges)) {}

  bool failed() const { return memory_.failed(); }

  // No more rows than the lanes of a register.
  void run(const Block& block) {
    load(op_.y, block, rows_.y, matrices_);
    if (op_.y_tangent != nullptr) {
      load(op_.y_tangent, block, tangent_rows_.y, matrices_tangent_);
    }
    for (int64_t e = 0; e < block.rows; ++e) {
      row(block.begin + e, e);
    }
    finish_streams();
  }

 private:
  static int64_t size(const PlannedChannelwiseProductDoubleBackward<S>& op) {
    const ChannelwisePlan<T>& plan = op.plan;
    return TangentScratch<T>::size(plan) + 2 * EdgeMatrices<T>::size(plan) +
           2 * RowBuffers<S>::size(plan) + Scratch<T>::round_up(scratch_row<S>(plan.dim_out)) +
           RowWriter<S>::size(plan.dim_out, op.stream) + RowWriter<S>::size(plan.dim_x) +
           RowWriter<S>::size(plan.dim_y) + RowWriter<S>::size(plan.dim_weight) +
           3 * Scratch<T>::round_up(plan.padded_x) + 2 * Scratch<T>::round_up(plan.largest_output) +
           Scratch<T>::round_up(plan.dim_y * kEdges);
  }

  void load(const S* from, const Block& block, T* wide, EdgeMatrices<T>& matrices) {
    for (int64_t e = 0; e < block.rows; ++e) {
      matrices.load(e, read_row(from + (block.begin + e) * plan_.dim_y, plan_.dim_y, wide));
    }
    matrices.compute();
  }

  void row(int64_t e, int64_t lane) {
    grad_.load(read_row(op_.grad + e * plan_.dim_out, plan_.dim_out, arrived_));
    x_.load(read_row(op_.x + e * plan_.dim_x, plan_.dim_x, rows_.x));
    if (op_.x_tangent != nullptr) {
      x_tangent_.load(read_row(op_.x_tangent + e * plan_.dim_x, plan_.dim_x, tangent_rows_.x));
    }
    const T* weight = weights(op_.weight, op_.weight_stride, e, rows_.weight);
    const T* weight_tangent =
        weights(op_.weight_tangent, plan_.dim_weight, e, tangent_rows_.weight);
    T* to_grad = to_grad_.begin(row_or_null(op_.to_grad, e, plan_.dim_out));
    T* to_weight = to_weight_.begin(row_or_null(op_.to_weight, e, plan_.dim_weight));
    if (to_grad != nullptr && !plan_.covers) {
      fill_zero(to_grad, plan_.dim_out);
    }
    if (to_weight != nullptr && !plan_.covers_weight) {
      fill_zero(to_weight, plan_.dim_weight);
    }
    fill_zero(slope_, plan_.padded_x);
    fill_zero(lanes_, plan_.dim_y * kEdges);
    for (int64_t p = 0; p < plan_.count; ++p) {
      const RowGradients<T> others{
          op_.to_x ? slope_ + plan_.layout[p].x : nullptr, to_weight, op_.to_y ? lanes_ : nullptr};
      const Components<T> out = output(to_grad, p);
      path_double_backward(
          plan_, p, {matrices_, lane, x_.of(p), weight}, tangents(p, weight_tangent), grad_.of(p),
          {out, !plan_.layout[p].first_into_output, others}, scratch_);
      if (out.data == output_ && plan_.layout[p].last_into_output) {
        const Path& path = plan_.path[p];
        put_back(
            output_, out.stride, plan_.ir_mul, path.x.mul, path.out.d, to_grad + path.out.offset);
      }
    }
    to_grad_.finish();
    to_weight_.finish();
    finish_inputs(e);
  }

  const T* weights(const S* from, int64_t stride, int64_t e, T* wide) const {
    return read_row(row_or_null(from, e, stride), plan_.dim_weight, wide);
  }

  PathTangents<T> tangents(int64_t p, const T* weight) const {
    return {
        op_.x_tangent ? x_tangent_.of(p) : Components<const T>{nullptr, 0},
        op_.y_tangent ? &matrices_tangent_ : nullptr, weight};
  }

  // Where a path writes its output: in the row, or in scratch memory where that has another layout.
  Components<T> output(T* row, int64_t p) const {
    const Path& path = plan_.path[p];
    if (row == nullptr) {
      return {nullptr, 0};
    }
    if (in_place(plan_.ir_mul, path.x.mul, path.out.d)) {
      return {row + path.out.offset, path.x.mul};
    }
    return {output_, padded(path.x.mul)};
  }

  void finish_inputs(int64_t e) {
    if (T* to_x = to_x_.begin(row_or_null(op_.to_x, e, plan_.dim_x))) {
      put_back_first_input(plan_, slope_, to_x);
      to_x_.finish();
    }
    if (T* to_y = to_y_.begin(row_or_null(op_.to_y, e, plan_.dim_y))) {
      sum_registers(lanes_, plan_.dim_y, to_y);
      to_y_.finish();
    }
  }

  const PlannedChannelwiseProductDoubleBackward<S>& op_;
  const ChannelwisePlan<T>& plan_;
  Scratch<T> memory_;
  TangentScratch<T> scratch_;
  EdgeMatrices<T> matrices_, matrices_tangent_;
  RowBuffers<S> rows_, tangent_rows_;
  T* arrived_;
  RowWriter<S> to_grad_, to_x_, to_y_, to_weight_;
  FirstInput<T> x_, x_tangent_;
  T* slope_;  // by x
  ArrivingGradient<T> grad_;
  T* output_;
  T* lanes_;  // by y, a register for each number
};

}  // namespace
}  // namespace equigeo
