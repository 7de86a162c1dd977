// Compiled once per instruction set: no torch, no C++ standard headers.
//
// The matrices of the second input act on the channels of the first as in a channelwise product,
// and the weights of the row mix what comes out while they stream past.
#include "kernels/cpu/fully_connected_product.h"

#include "kernels/cpu/mixed_path.h"
#include "kernels/cpu/run_blocks.h"

namespace equigeo {
namespace {

// What both passes do: fetch a row and couple its channels.
template <class T>
class MixingPass {
 protected:
  static constexpr int64_t kEdges = EdgeMatrices<T>::kEdges;
  static constexpr int64_t kBeyond = 4 * kLane<T>;  // that registers reach over the end of a row

  MixingPass(const FullyConnectedPlan<T>& plan, int64_t more)
      : plan_(plan),
        paths_(plan.paths),
        memory_(
            EdgeMatrices<T>::size(paths_) + Scratch<T>::round_up(paths_.padded_x) +
            Scratch<T>::round_up(plan.padded_outputs) +
            Scratch<T>::round_up(plan.largest_coupling) + Scratch<T>::round_up(weights_size()) +
            more),
        matrices_(paths_, memory_),
        x_(memory_.take(paths_.padded_x)),
        outputs_(memory_.take(plan.padded_outputs)),
        couplings_(memory_.take(plan.largest_coupling)),
        weights_(memory_.take(weights_size())) {}

  void load_block(const T* y, const Block& block) {
    for (int64_t e = 0; e < block.rows; ++e) {
      matrices_.load(e, y + (block.begin + e) * paths_.dim_y);
    }
    matrices_.compute();
  }

  void load_row(const T* x) {
    for (int64_t s = 0; s < paths_.segments; ++s) {
      const PaddedSegment segment = paths_.segment[s];
      fetch(
          x + segment.offset, paths_.ir_mul, segment.mul, segment.d, x_ + segment.padded,
          padded(segment.mul));
    }
  }

  // The weights of row e, behind which registers may read.
  const T* weights_of_row(const T* weight, int64_t e, int64_t rows) {
    const T* row = weight + e * paths_.dim_weight;
    if ((rows - 1 - e) * paths_.dim_weight >= kBeyond) {
      return row;
    }
    copy_row(row, paths_.dim_weight, weights_);
    fill_zero(weights_ + paths_.dim_weight, weights_size() - paths_.dim_weight);
    return weights_;
  }

  Couplings sizes(int64_t p) const {
    const Path& path = paths_.path[p];
    return {path.x.mul, path.y.mul, padded(path.x.mul), path.out.d * padded(path.x.mul)};
  }

  Components<const T> x_of(int64_t p) const {
    return {x_ + paths_.layout[p].x, padded(paths_.path[p].x.mul)};
  }

  void couple(int64_t p, int64_t lane) {
    const Path& path = paths_.path[p];
    const Couplings size = sizes(p);
    for (int64_t v = 0; v < path.y.mul; ++v) {
      const Components<T> into{couplings_ + v * size.v_step, size.k_step};
      for_components(
          path.x.d,
          Apply<T>{matrices_.matrix(p, v) + lane, path.out.d, x_of(p), nullptr, into, false});
    }
  }

  int64_t weights_size() const { return paths_.dim_weight + kBeyond; }

  const FullyConnectedPlan<T>& plan_;
  const ChannelwisePlan<T>& paths_;
  Scratch<T> memory_;
  EdgeMatrices<T> matrices_;
  T* x_;
  T* outputs_;
  T* couplings_;
  T* weights_;
};

template <class T>
class Forward : MixingPass<T> {
  using Base = MixingPass<T>;
  using Base::plan_, Base::paths_, Base::outputs_;

 public:
  explicit Forward(const PlannedFullyConnectedProduct<T>& op) : Base(op.plan, 0), op_(op) {}

  bool failed() const { return this->memory_.failed(); }

  void run(const Block& block) {
    this->load_block(op_.y, block);
    for (int64_t e = 0; e < block.rows; ++e) {
      row(block.begin + e, e);
    }
  }

 private:
  void row(int64_t e, int64_t lane) {
    this->load_row(op_.x + e * paths_.dim_x);
    const T* weight = this->weights_of_row(op_.weight, e, op_.rows);
    fill_zero(outputs_, plan_.padded_outputs);
    for (int64_t p = 0; p < paths_.count; ++p) {
      const PaddedSegment output = plan_.output[plan_.output_of[p]];
      this->couple(p, lane);
      for_components(
          output.d, MixedPath<T>{
                        this->sizes(p), this->couplings_, weight + paths_.path[p].weight,
                        output.mul, padded(output.mul), outputs_ + output.padded});
    }
    T* out = op_.out + e * paths_.dim_out;
    if (!plan_.covers) {
      fill_zero(out, paths_.dim_out);
    }
    for (int64_t s = 0; s < plan_.outputs; ++s) {
      const PaddedSegment output = plan_.output[s];
      put_back(
          outputs_ + output.padded, padded(output.mul), paths_.ir_mul, output.mul, output.d,
          out + output.offset);
    }
  }

  const PlannedFullyConnectedProduct<T>& op_;
};

template <class T>
class Backward : MixingPass<T> {
  using Base = MixingPass<T>;
  using Base::plan_, Base::paths_, Base::outputs_, Base::memory_, Base::kEdges;

 public:
  explicit Backward(const PlannedFullyConnectedProductBackward<T>& op)
      : Base(op.plan, size(op.plan)),
        op_(op),
        slope_(memory_.take(paths_.padded_x)),
        grad_y_(memory_.take(paths_.dim_y * kEdges)),
        grad_couplings_(memory_.take(plan_.largest_coupling)),
        sums_(memory_.take(sums_size(plan_))),
        weighted_(memory_.take(paths_.largest_x)),
        gradient_(memory_.take(paths_.largest_matrix * kEdges)) {}

  bool failed() const { return memory_.failed(); }

  void run(const Block& block) {
    this->load_block(op_.y, block);
    for (int64_t e = 0; e < block.rows; ++e) {
      row(block.begin + e, e);
    }
  }

 private:
  static int64_t sums_size(const FullyConnectedPlan<T>& plan) {
    return plan.largest_mul2 * 13 * kLane<T> * kLane<T>;
  }

  static int64_t size(const FullyConnectedPlan<T>& plan) {
    return 2 * Scratch<T>::round_up(plan.paths.padded_x) +
           Scratch<T>::round_up(plan.paths.dim_y * kEdges) +
           Scratch<T>::round_up(plan.largest_coupling) + Scratch<T>::round_up(sums_size(plan)) +
           Scratch<T>::round_up(plan.paths.largest_matrix * kEdges);
  }

  void row(int64_t e, int64_t lane) {
    this->load_row(op_.x + e * paths_.dim_x);
    const T* weight = this->weights_of_row(op_.weight, e, op_.rows);
    T* grad_weight = op_.grad_weight + e * paths_.dim_weight;
    arrive(op_.grad + e * paths_.dim_out);
    fill_zero(slope_, paths_.padded_x);
    fill_zero(grad_y_, paths_.dim_y * kEdges);
    if (!plan_.covers_weight) {
      fill_zero(grad_weight, paths_.dim_weight);
    }
    for (int64_t p = 0; p < paths_.count; ++p) {
      const PaddedSegment output = plan_.output[plan_.output_of[p]];
      const int64_t first = paths_.path[p].weight;
      this->couple(p, lane);
      fill_zero(grad_couplings_, this->sizes(p).v_step * paths_.path[p].y.mul);
      for_components(
          output.d,
          MixedGradients<T>{
              this->sizes(p), this->couplings_, weight + first, output.mul, padded(output.mul),
              outputs_ + output.padded, grad_couplings_, grad_weight + first, sums_});
      transpose_couplings(p, lane);
    }
    leave(op_.grad_x + e * paths_.dim_x);
    sum_registers(grad_y_, paths_.dim_y, op_.grad_y + e * paths_.dim_y);
  }

  void arrive(const T* grad) {
    for (int64_t s = 0; s < plan_.outputs; ++s) {
      const PaddedSegment output = plan_.output[s];
      fetch(
          grad + output.offset, paths_.ir_mul, output.mul, output.d, outputs_ + output.padded,
          padded(output.mul));
    }
  }

  void transpose_couplings(int64_t p, int64_t lane) {
    const Path& path = paths_.path[p];
    const Couplings size = this->sizes(p);
    for (int64_t v = 0; v < path.y.mul; ++v) {
      const Components<const T> grad{grad_couplings_ + v * size.v_step, size.k_step};
      const Components<const T> x = this->x_of(p);
      for_components(
          path.x.d, Transpose<T>{
                        this->matrices_.matrix(p, v) + lane, path.out.d, grad, x, nullptr,
                        slope_ + paths_.layout[p].x, nullptr, weighted_});
      add_second_gradient(paths_, p, v, grad, {weighted_, x.stride}, gradient_, grad_y_);
    }
  }

  void leave(T* grad_x) {
    if (!paths_.covers_x) {
      fill_zero(grad_x, paths_.dim_x);
    }
    for (int64_t s = 0; s < paths_.segments; ++s) {
      const PaddedSegment segment = paths_.segment[s];
      put_back(
          slope_ + segment.padded, padded(segment.mul), paths_.ir_mul, segment.mul, segment.d,
          grad_x + segment.offset);
    }
  }

  const PlannedFullyConnectedProductBackward<T>& op_;
  T* slope_;
  T* grad_y_;
  T* grad_couplings_;
  T* sums_;
  T* weighted_;
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
