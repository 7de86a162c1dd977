// Compiled once per instruction set: no torch, no C++ standard headers.
//
// The matrices of the second input act on the channels of the first as in a channelwise product,
// and the weights of the row mix what comes out while they stream past.
#include "kernels/cpu/fully_connected_product.h"

#include "kernels/cpu/mixing_operands.h"
#include "kernels/cpu/rows.h"

namespace equigeo {
namespace {

template <class T>
class Forward {
 public:
  explicit Forward(const PlannedFullyConnectedProduct<T>& op)
      : op_(op),
        plan_(op.plan),
        memory_(
            MixingOperands<T>::size(plan_) + Scratch<T>::round_up(plan_.padded_outputs) +
            Scratch<T>::round_up(plan_.largest_coupling)),
        operands_(plan_, memory_),
        outputs_(memory_.take(plan_.padded_outputs)),
        couplings_(memory_.take(plan_.largest_coupling)) {}

  bool failed() const { return memory_.failed(); }

  void run(const Block& block) {
    operands_.load_block(op_.y, block);
    for (int64_t e = 0; e < block.rows; ++e) {
      row(block.begin + e, e);
    }
  }

 private:
  void row(int64_t e, int64_t lane) {
    const ChannelwisePlan<T>& paths = plan_.paths;
    operands_.load_row(op_.x + e * paths.dim_x);
    const T* weight = operands_.weights_of_row(op_.weight, op_.weight_stride, e, op_.rows);
    fill_zero(outputs_, plan_.padded_outputs);
    for (int64_t p = 0; p < paths.count; ++p) {
      const Path& path = paths.path[p];
      const PaddedSegment output = plan_.output[plan_.output_of[p]];
      couple_channels(paths, p, operands_, lane, operands_.x_of(p), couplings_);
      for_components(
          output.d, MixedPath<T>{
                        coupling_sizes(path), couplings_, weight + path.weight, output.mul,
                        padded(output.mul), outputs_ + output.padded});
    }
    put_back_outputs(plan_, outputs_, op_.out + e * paths.dim_out);
  }

  const PlannedFullyConnectedProduct<T>& op_;
  const FullyConnectedPlan<T>& plan_;
  Scratch<T> memory_;
  MixingOperands<T> operands_;
  T* outputs_;
  T* couplings_;
};

template <class T>
class Backward {
 public:
  explicit Backward(const PlannedFullyConnectedProductBackward<T>& op)
      : op_(op),
        plan_(op.plan),
        paths_(plan_.paths),
        memory_(size(plan_)),
        operands_(plan_, memory_),
        arrived_(memory_.take(plan_.padded_outputs)),
        couplings_(memory_.take(plan_.largest_coupling)),
        grad_couplings_(memory_.take(plan_.largest_coupling)),
        slope_(memory_.take(paths_.padded_x)),
        grad_y_(memory_.take(paths_.dim_y * kEdges)),
        sums_(memory_.take(slopes_size(plan_))),
        gradient_(memory_.take(paths_.largest_matrix * kEdges)) {}

  bool failed() const { return memory_.failed(); }

  void run(const Block& block) {
    operands_.load_block(op_.y, block);
    for (int64_t e = 0; e < block.rows; ++e) {
      row(block.begin + e, e);
    }
  }

 private:
  static constexpr int64_t kEdges = EdgeMatrices<T>::kEdges;

  static int64_t size(const FullyConnectedPlan<T>& plan) {
    return MixingOperands<T>::size(plan) + Scratch<T>::round_up(plan.padded_outputs) +
           2 * Scratch<T>::round_up(plan.largest_coupling) +
           Scratch<T>::round_up(plan.paths.padded_x) +
           Scratch<T>::round_up(plan.paths.dim_y * kEdges) +
           Scratch<T>::round_up(slopes_size(plan)) +
           Scratch<T>::round_up(plan.paths.largest_matrix * kEdges);
  }

  void row(int64_t e, int64_t lane) {
    operands_.load_row(op_.x + e * paths_.dim_x);
    const T* weight = operands_.weights_of_row(op_.weight, op_.weight_stride, e, op_.rows);
    T* grad_weight = row_or_null(op_.grad_weight, e, paths_.dim_weight);
    fetch_outputs(plan_, op_.grad + e * paths_.dim_out, arrived_);
    fill_zero(slope_, paths_.padded_x);
    fill_zero(grad_y_, paths_.dim_y * kEdges);
    if (grad_weight != nullptr && !plan_.covers_weight) {
      fill_zero(grad_weight, paths_.dim_weight);
    }
    for (int64_t p = 0; p < paths_.count; ++p) {
      const Path& path = paths_.path[p];
      const PaddedSegment output = plan_.output[plan_.output_of[p]];
      const Couplings size = coupling_sizes(path);
      couple_channels(paths_, p, operands_, lane, operands_.x_of(p), couplings_);
      fill_zero(grad_couplings_, size.v_step * path.y.mul);
      for_components(
          output.d, MixedGradients<T>{
                        size, couplings_, weight + path.weight, output.mul, padded(output.mul),
                        arrived_ + output.padded, grad_couplings_,
                        row_or_null(grad_weight, path.weight, 1), sums_});
      transpose_couplings(p, lane);
    }
    put_back_inputs(paths_, slope_, op_.grad_x + e * paths_.dim_x);
    sum_registers(grad_y_, paths_.dim_y, op_.grad_y + e * paths_.dim_y);
  }

  void transpose_couplings(int64_t p, int64_t lane) {
    const Path& path = paths_.path[p];
    const Components<const T> x = operands_.x_of(p);
    for (int64_t v = 0; v < path.y.mul; ++v) {
      const Components<const T> grad = couplings_of(path, grad_couplings_, v);
      for_components(
          path.x.d, Transpose<T>{
                        operands_.matrix(p, v, lane), path.out.d, grad, x, nullptr,
                        slope_ + paths_.layout[p].x, nullptr, nullptr});
      add_second_gradient(paths_, p, v, grad, x, gradient_, grad_y_);
    }
  }

  const PlannedFullyConnectedProductBackward<T>& op_;
  const FullyConnectedPlan<T>& plan_;
  const ChannelwisePlan<T>& paths_;
  Scratch<T> memory_;
  MixingOperands<T> operands_;
  T* arrived_;
  T* couplings_;
  T* grad_couplings_;
  T* slope_;
  T* grad_y_;
  T* sums_;
  T* gradient_;
};

template <class T>
int product_rows(const PlannedFullyConnectedProduct<T>& op, int64_t begin, int64_t end) {
  return run_blocks<Forward<T>>(op, begin, end, EdgeMatrices<T>::kEdges);
}

template <class T>
int product_backward_rows(
    const PlannedFullyConnectedProductBackward<T>& op, int64_t begin, int64_t end) {
  return run_blocks<Backward<T>>(op, begin, end, EdgeMatrices<T>::kEdges);
}

}  // namespace

const Kernels<PlannedFullyConnectedProduct> EQUIGEO_FOR_ISA(fully_connected_product_rows) = {
    product_rows<float>, product_rows<double>};
const Kernels<PlannedFullyConnectedProductBackward> EQUIGEO_FOR_ISA(
    fully_connected_product_backward_rows) = {
    product_backward_rows<float>, product_backward_rows<double>};

}  // namespace equigeo
