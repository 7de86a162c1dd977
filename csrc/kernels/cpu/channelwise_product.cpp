// Compiled once per instruction set: no torch, no C++ standard headers.
#include "kernels/cpu/channelwise_product.h"

#include "kernels/cpu/edge_product.h"
#include "kernels/cpu/product_rows.h"
#include "kernels/cpu/run_blocks.h"

namespace equigeo {
namespace {

template <class S>
class Forward {
 public:
  using T = Compute<S>;
  static constexpr int64_t kEdges = EdgeMatrices<T>::kEdges;

  explicit Forward(const PlannedChannelwiseProduct<S>& op)
      : op_(op),
        plan_(op.plan),
        memory_(
            PathScratch<T>::size(plan_) + EdgeMatrices<T>::size(plan_) +
            RowBuffers<S>::size(plan_) + Scratch<T>::round_up(plan_.padded_x) +
            Scratch<T>::round_up(plan_.largest_output) +
            RowWriter<S>::size(plan_.dim_out, op.stream)),
        scratch_(plan_, memory_),
        matrices_(plan_, memory_),
        rows_(plan_, memory_),
        x_(plan_, memory_.take(plan_.padded_x)),
        output_(memory_.take(plan_.largest_output)),
        out_(plan_.dim_out, op.stream, memory_) {}

  bool failed() const { return memory_.failed(); }

  // No more rows than the lanes of a register.
  void run(const Block& block) {
    for (int64_t e = 0; e < block.rows; ++e) {
      const S* y = op_.y + (block.begin + e) * plan_.dim_y;
      matrices_.load(e, read_row(y, plan_.dim_y, rows_.y));
    }
    matrices_.compute();
    for (int64_t e = 0; e < block.rows; ++e) {
      row(block.begin + e, e);
    }
    finish_streams();
  }

 private:
  void row(int64_t e, int64_t lane) {
    T* out = out_.begin(op_.out + e * plan_.dim_out);
    const T* weight =
        read_row(row_or_null(op_.weight, e, op_.weight_stride), plan_.dim_weight, rows_.weight);
    x_.load(read_row(op_.x + e * plan_.dim_x, plan_.dim_x, rows_.x));
    if (!plan_.covers) {
      fill_zero(out, plan_.dim_out);
    }
    for (int64_t p = 0; p < plan_.count; ++p) {
      const Path& path = plan_.path[p];
      const PathLayout layout = plan_.layout[p];
      const bool direct = in_place(plan_.ir_mul, path.x.mul, path.out.d);
      const Components<T> into = direct ? Components<T>{out + path.out.offset, path.x.mul}
                                        : Components<T>{output_, padded(path.x.mul)};
      path_forward(
          plan_, p, {matrices_, lane, x_.of(p), weight}, into, !layout.first_into_output, scratch_);
      if (layout.last_into_output && !direct) {
        put_back(output_, into.stride, plan_.ir_mul, path.x.mul, path.out.d, out + path.out.offset);
      }
    }
    out_.finish();
  }

  const PlannedChannelwiseProduct<S>& op_;
  const ChannelwisePlan<T>& plan_;
  Scratch<T> memory_;
  PathScratch<T> scratch_;
  EdgeMatrices<T> matrices_;
  RowBuffers<S> rows_;
  FirstInput<T> x_;
  T* output_;
  RowWriter<S> out_;
};

template <class S>
class Backward {
 public:
  using T = Compute<S>;
  static constexpr int64_t kEdges = EdgeMatrices<T>::kEdges;

  explicit Backward(const PlannedChannelwiseProductBackward<S>& op)
      : op_(op),
        plan_(op.plan),
        memory_(
            PathScratch<T>::size(plan_) + EdgeMatrices<T>::size(plan_) +
            RowBuffers<S>::size(plan_) + 2 * Scratch<T>::round_up(plan_.padded_x) +
            Scratch<T>::round_up(scratch_row<S>(plan_.dim_out)) +
            RowWriter<S>::size(plan_.dim_x, op.stream_x) + RowWriter<S>::size(plan_.dim_y) +
            RowWriter<S>::size(plan_.dim_weight, op.stream_weight) +
            Scratch<T>::round_up(plan_.largest_output) +
            Scratch<T>::round_up(plan_.dim_y * kEdges)),
        scratch_(plan_, memory_),
        matrices_(plan_, memory_),
        rows_(plan_, memory_),
        arrived_(memory_.take(scratch_row<S>(plan_.dim_out))),
        grad_x_(plan_.dim_x, op.stream_x, memory_),
        grad_y_(plan_.dim_y, false, memory_),
        grad_weight_(plan_.dim_weight, op.stream_weight, memory_),
        x_(plan_, memory_.take(plan_.padded_x)),
        slope_(memory_.take(plan_.padded_x)),
        grad_(plan_, memory_.take(plan_.largest_output)),
        lanes_(memory_.take(plan_.dim_y * kEdges)) {}

  bool failed() const { return memory_.failed(); }

  void run(const Block& block) {
    for (int64_t e = 0; e < block.rows; ++e) {
      const S* y = op_.y + (block.begin + e) * plan_.dim_y;
      matrices_.load(e, read_row(y, plan_.dim_y, rows_.y));
    }
    matrices_.compute();
    for (int64_t e = 0; e < block.rows; ++e) {
      row(block.begin + e, e);
    }
    finish_streams();
  }

 private:
  void row(int64_t e, int64_t lane) {
    grad_.load(read_row(op_.grad + e * plan_.dim_out, plan_.dim_out, arrived_));
    const T* weight =
        read_row(row_or_null(op_.weight, e, op_.weight_stride), plan_.dim_weight, rows_.weight);
    T* grad_weight = grad_weight_.begin(row_or_null(op_.grad_weight, e, plan_.dim_weight));
    x_.load(read_row(op_.x + e * plan_.dim_x, plan_.dim_x, rows_.x));
    if (grad_weight != nullptr && !plan_.covers_weight) {
      fill_zero(grad_weight, plan_.dim_weight);
    }
    fill_zero(slope_, plan_.padded_x);
    fill_zero(lanes_, plan_.dim_y * kEdges);
    for (int64_t p = 0; p < plan_.count; ++p) {
      const RowGradients<T> into{slope_ + plan_.layout[p].x, grad_weight, lanes_};
      path_backward(plan_, p, {matrices_, lane, x_.of(p), weight}, grad_.of(p), into, scratch_);
    }
    grad_weight_.finish();
    put_back_first_input(plan_, slope_, grad_x_.begin(op_.grad_x + e * plan_.dim_x));
    grad_x_.finish();
    sum_registers(lanes_, plan_.dim_y, grad_y_.begin(op_.grad_y + e * plan_.dim_y));
    grad_y_.finish();
  }

  const PlannedChannelwiseProductBackward<S>& op_;
  const ChannelwisePlan<T>& plan_;
  Scratch<T> memory_;
  PathScratch<T> scratch_;
  EdgeMatrices<T> matrices_;
  RowBuffers<S> rows_;
  T* arrived_;
  RowWriter<S> grad_x_, grad_y_, grad_weight_;
  FirstInput<T> x_;
  T* slope_;
  ArrivingGradient<T> grad_;
  T* lanes_;  // gradient of y, a register for each number
};

template <class S>
int product_rows(const PlannedChannelwiseProduct<S>& op, int64_t begin, int64_t end) {
  return run_blocks<Forward<S>>(op, begin, end, Forward<S>::kEdges);
}

template <class S>
int product_backward_rows(
    const PlannedChannelwiseProductBackward<S>& op, int64_t begin, int64_t end) {
  return run_blocks<Backward<S>>(op, begin, end, Backward<S>::kEdges);
}

}  // namespace

const Kernels<PlannedChannelwiseProduct> EQUIGEO_FOR_ISA(channelwise_product_rows) = {
    product_rows<float>, product_rows<double>, product_rows<Bf16>};
const Kernels<PlannedChannelwiseProductBackward> EQUIGEO_FOR_ISA(
    channelwise_product_backward_rows) = {
    product_backward_rows<float>, product_backward_rows<double>, product_backward_rows<Bf16>};

}  // namespace equigeo
