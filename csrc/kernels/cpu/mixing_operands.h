// Rows of fully connected products in the layout of kernels, and their couplings.
#pragma once

#include "kernels/cpu/fully_connected_product.h"
#include "kernels/cpu/mixed_path.h"
#include "kernels/cpu/run_blocks.h"

namespace equigeo {
namespace {

// What a row is given, or tangents of it: matrices of the second input for a block of rows, the
// first input, and weights.
template <class T>
class MixingOperands {
 public:
  MixingOperands(const FullyConnectedPlan<T>& plan, Scratch<T>& memory)
      : paths_(plan.paths),
        matrices_(paths_, memory),
        x_(memory.take(paths_.padded_x)),
        weights_(memory.take(weights_size(paths_))) {}

  static int64_t size(const FullyConnectedPlan<T>& plan) {
    return EdgeMatrices<T>::size(plan.paths) + Scratch<T>::round_up(plan.paths.padded_x) +
           Scratch<T>::round_up(weights_size(plan.paths));
  }

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
  const T* weights_of_row(const T* weight, int64_t stride, int64_t e, int64_t rows) {
    const T* row = weight + e * stride;
    if ((rows - 1 - e) * stride >= kBeyond) {
      return row;
    }
    copy_row(row, paths_.dim_weight, weights_);
    fill_zero(weights_ + paths_.dim_weight, kBeyond);
    return weights_;
  }

  Components<const T> x_of(int64_t p) const {
    return {x_ + paths_.layout[p].x, padded(paths_.path[p].x.mul)};
  }

  const T* matrix(int64_t p, int64_t v, int64_t lane) const {
    return matrices_.matrix(p, v) + lane;
  }

 private:
  static constexpr int64_t kBeyond = 4 * kLane<T>;  // that registers reach over the end of a row

  static int64_t weights_size(const ChannelwisePlan<T>& paths) {
    return paths.dim_weight + kBeyond;
  }

  const ChannelwisePlan<T>& paths_;
  EdgeMatrices<T> matrices_;
  T* x_;
  T* weights_;
};

EQUIGEO_HOST_DEVICE Couplings coupling_sizes(const Path& path) {
  const int64_t wide = padded(path.x.mul);
  return {path.x.mul, path.y.mul, wide, path.out.d * wide};
}

// The channels of `x` coupled with the second input of `second`, for the row of a lane.
template <class T>
inline void couple_channels(
    const ChannelwisePlan<T>& paths,
    int64_t p,
    const MixingOperands<T>& second,
    int64_t lane,
    Components<const T> x,
    T* couplings,
    bool add = false) {
  const Path& path = paths.path[p];
  const Couplings size = coupling_sizes(path);
  for (int64_t v = 0; v < path.y.mul; ++v) {
    const Components<T> into{couplings + v * size.v_step, size.k_step};
    for_components(
        path.x.d, Apply<T>{second.matrix(p, v, lane), path.out.d, x, nullptr, into, add});
  }
}

template <class T>
inline Components<const T> couplings_of(const Path& path, const T* couplings, int64_t v) {
  const Couplings size = coupling_sizes(path);
  return {couplings + v * size.v_step, size.k_step};
}

// A row of the output, or what arrives at it.
template <class T>
inline void fetch_outputs(const FullyConnectedPlan<T>& plan, const T* row, T* outputs) {
  for (int64_t s = 0; s < plan.outputs; ++s) {
    const PaddedSegment output = plan.output[s];
    fetch(
        row + output.offset, plan.paths.ir_mul, output.mul, output.d, outputs + output.padded,
        padded(output.mul));
  }
}

template <class T>
inline void put_back_outputs(const FullyConnectedPlan<T>& plan, const T* outputs, T* row) {
  if (!plan.covers) {
    fill_zero(row, plan.paths.dim_out);
  }
  for (int64_t s = 0; s < plan.outputs; ++s) {
    const PaddedSegment output = plan.output[s];
    put_back(
        outputs + output.padded, padded(output.mul), plan.paths.ir_mul, output.mul, output.d,
        row + output.offset);
  }
}

// A row of what belongs to the first input.
template <class T>
inline void put_back_inputs(const ChannelwisePlan<T>& paths, const T* inputs, T* row) {
  if (!paths.covers_x) {
    fill_zero(row, paths.dim_x);
  }
  for (int64_t s = 0; s < paths.segments; ++s) {
    const PaddedSegment segment = paths.segment[s];
    put_back(
        inputs + segment.padded, padded(segment.mul), paths.ir_mul, segment.mul, segment.d,
        row + segment.offset);
  }
}

// Registers of channels u and copies v, each with D components.
template <class T>
inline int64_t slopes_size(const FullyConnectedPlan<T>& plan) {
  return plan.largest_mul2 * 13 * kLane<T> * kLane<T>;
}

}  // namespace
}  // namespace equigeo
