// Compiled once per instruction set: no torch, no C++ standard headers.
//
// The product and what arrives at it make one form F(g, x, y, w), linear in each argument, whose
// derivatives are the gradients. With couplings c of x and y, it changes along tangents a of x, b
// of y and s of the weights by
//
//   sum g (w t + s c),   where t couples a with y and x with b.
//
// So all weights and all of their tangents stream past once: the former are mixed with t, the
// latter with c. What arrives at t through the weights, and at c through their tangents, then goes
// on to x and y.
#include "kernels/cpu/mixing_operands.h"

namespace equigeo {
namespace {

template <class T>
class DoubleBackward {
 public:
  explicit DoubleBackward(const PlannedFullyConnectedProductDoubleBackward<T>& op)
      : op_(op),
        plan_(op.plan),
        paths_(plan_.paths),
        moves_(op.x_tangent != nullptr || op.y_tangent != nullptr),
        memory_(size(plan_)),
        point_(plan_, memory_),
        tangent_(plan_, memory_),
        arrived_(memory_.take(plan_.padded_outputs)),
        outputs_(memory_.take(plan_.padded_outputs)),
        couplings_(memory_.take(plan_.largest_coupling)),
        to_moved_(memory_.take(plan_.largest_coupling)),
        to_couplings_(memory_.take(plan_.largest_coupling)),
        slope_(memory_.take(paths_.padded_x)),
        lanes_(memory_.take(paths_.dim_y * kEdges)),
        sums_(memory_.take(slopes_size(plan_))),
        gradient_(memory_.take(paths_.largest_matrix * kEdges)) {}

  bool failed() const { return memory_.failed(); }

  void run(const Block& block) {
    point_.load_block(op_.y, block);
    if (op_.y_tangent != nullptr) {
      tangent_.load_block(op_.y_tangent, block);
    }
    for (int64_t e = 0; e < block.rows; ++e) {
      row(block.begin + e, e);
    }
  }

 private:
  static constexpr int64_t kEdges = EdgeMatrices<T>::kEdges;

  static int64_t size(const FullyConnectedPlan<T>& plan) {
    return 2 * MixingOperands<T>::size(plan) + 2 * Scratch<T>::round_up(plan.padded_outputs) +
           3 * Scratch<T>::round_up(plan.largest_coupling) +
           Scratch<T>::round_up(plan.paths.padded_x) +
           Scratch<T>::round_up(plan.paths.dim_y * kEdges) +
           Scratch<T>::round_up(slopes_size(plan)) +
           Scratch<T>::round_up(plan.paths.largest_matrix * kEdges);
  }

  void row(int64_t e, int64_t lane) {
    load_row(e);
    const T* weight = point_.weights_of_row(op_.weight, op_.weight_stride, e, op_.rows);
    const T* weight_tangent = nullptr;
    if (op_.weight_tangent != nullptr) {
      weight_tangent = tangent_.weights_of_row(op_.weight_tangent, paths_.dim_weight, e, op_.rows);
    }
    T* to_weight = op_.to_weight ? op_.to_weight + e * paths_.dim_weight : nullptr;
    if (to_weight != nullptr && !(moves_ && plan_.covers_weight)) {
      fill_zero(to_weight, paths_.dim_weight);
    }
    for (int64_t p = 0; p < paths_.count; ++p) {
      const int64_t first = paths_.path[p].weight;
      if (moves_) {
        if (op_.to_grad != nullptr || to_weight != nullptr) {
          couple_tangents(p, lane);
        }
        const bool goes_on = (op_.to_x && op_.y_tangent) || (op_.to_y && op_.x_tangent);
        mix(p, weight + first, goes_on ? to_moved_ : nullptr,
            to_weight ? to_weight + first : nullptr);
      }
      if (weight_tangent != nullptr) {
        if (op_.to_grad != nullptr) {
          couple_channels(paths_, p, point_, lane, point_.x_of(p), couplings_);
        }
        mix(p, weight_tangent + first, op_.to_x || op_.to_y ? to_couplings_ : nullptr, nullptr);
      }
      transpose_couplings(p, lane);
    }
    finish(e);
  }

  void load_row(int64_t e) {
    point_.load_row(op_.x + e * paths_.dim_x);
    if (op_.x_tangent != nullptr) {
      tangent_.load_row(op_.x_tangent + e * paths_.dim_x);
    }
    fetch_outputs(plan_, op_.grad + e * paths_.dim_out, arrived_);
    fill_zero(outputs_, plan_.padded_outputs);
    fill_zero(slope_, paths_.padded_x);
    fill_zero(lanes_, paths_.dim_y * kEdges);
  }

  // How couplings change.
  void couple_tangents(int64_t p, int64_t lane) {
    if (op_.x_tangent != nullptr) {
      couple_channels(paths_, p, point_, lane, tangent_.x_of(p), couplings_);
    }
    if (op_.y_tangent != nullptr) {
      const bool add = op_.x_tangent != nullptr;
      couple_channels(paths_, p, tangent_, lane, point_.x_of(p), couplings_, add);
    }
  }

  // The present couplings with weights of a path: what they give to the output, what arrives at
  // them, and at the weights.
  void mix(int64_t p, const T* weight, T* to_couplings, T* to_weight) {
    const Path& path = paths_.path[p];
    const PaddedSegment output = plan_.output[plan_.output_of[p]];
    const Couplings size = coupling_sizes(path);
    const int64_t wide = padded(output.mul);
    if (op_.to_grad != nullptr) {
      for_components(
          output.d,
          MixedPath<T>{size, couplings_, weight, output.mul, wide, outputs_ + output.padded});
    }
    if (to_couplings != nullptr) {
      fill_zero(to_couplings, size.v_step * path.y.mul);
    }
    if (to_couplings != nullptr || to_weight != nullptr) {
      for_components(
          output.d, MixedGradients<T>{
                        size, couplings_, weight, output.mul, wide, arrived_ + output.padded,
                        to_couplings, to_weight, sums_});
    }
  }

  // What arrives at couplings and at their tangents, to x through the matrices of y and of its
  // tangent, and to y through the channels of x and of its tangent.
  void transpose_couplings(int64_t p, int64_t lane) {
    const Path& path = paths_.path[p];
    const bool along_weight = op_.weight_tangent != nullptr;
    for (int64_t v = 0; v < path.y.mul; ++v) {
      const Components<const T> arriving = couplings_of(path, to_couplings_, v);
      const Components<const T> moved = couplings_of(path, to_moved_, v);
      if (op_.to_x != nullptr && along_weight) {
        transpose(p, point_.matrix(p, v, lane), arriving);
      }
      if (op_.to_x != nullptr && op_.y_tangent != nullptr) {
        transpose(p, tangent_.matrix(p, v, lane), moved);
      }
      if (op_.to_y != nullptr && (along_weight || op_.x_tangent != nullptr)) {
        if (along_weight) {
          for_components(
              path.x.d, OuterProduct<T>{path.out.d, arriving, point_.x_of(p), gradient_});
        }
        if (op_.x_tangent != nullptr) {
          for_components(
              path.x.d,
              OuterProduct<T>{path.out.d, moved, tangent_.x_of(p), gradient_, along_weight});
        }
        add_second_gradient(paths_, p, v, gradient_, lanes_);
      }
    }
  }

  void transpose(int64_t p, const T* matrix, Components<const T> grad) {
    const Path& path = paths_.path[p];
    for_components(
        path.x.d, Transpose<T>{
                      matrix, path.out.d, grad, point_.x_of(p), nullptr,
                      slope_ + paths_.layout[p].x, nullptr, nullptr});
  }

  void finish(int64_t e) {
    if (op_.to_grad != nullptr) {
      put_back_outputs(plan_, outputs_, op_.to_grad + e * paths_.dim_out);
    }
    if (op_.to_x != nullptr) {
      put_back_inputs(paths_, slope_, op_.to_x + e * paths_.dim_x);
    }
    if (op_.to_y != nullptr) {
      sum_registers(lanes_, paths_.dim_y, op_.to_y + e * paths_.dim_y);
    }
  }

  const PlannedFullyConnectedProductDoubleBackward<T>& op_;
  const FullyConnectedPlan<T>& plan_;
  const ChannelwisePlan<T>& paths_;
  const bool moves_;  // whether couplings do
  Scratch<T> memory_;
  MixingOperands<T> point_, tangent_;
  T* arrived_;
  T* outputs_;
  T* couplings_;
  T* to_moved_;      // what arrives at tangents of couplings
  T* to_couplings_;  // and at couplings
  T* slope_;         // by x
  T* lanes_;         // by y, a register for each number
  T* sums_;
  T* gradient_;
};

template <class T>
int product_double_backward_rows(
    const PlannedFullyConnectedProductDoubleBackward<T>& op, int64_t begin, int64_t end) {
  return run_blocks<DoubleBackward<T>>(op, begin, end, EdgeMatrices<T>::kEdges);
}

}  // namespace

const Kernels<PlannedFullyConnectedProductDoubleBackward> EQUIGEO_FOR_ISA(
    fully_connected_product_double_backward_rows) = {
    product_double_backward_rows<float>, product_double_backward_rows<double>};

}  // namespace equigeo
