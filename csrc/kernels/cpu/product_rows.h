// Rows of channelwise products in the layout of kernels.
#pragma once

#include "kernels/cpu/channelwise_plan.h"
#include "kernels/cpu/rows.h"

namespace equigeo {
namespace {

// The first input of a row, copied only where the tensor has another layout.
template <class T>
class FirstInput {
 public:
  FirstInput(const ChannelwisePlan<T>& plan, T* scratch) : plan_(plan), scratch_(scratch) {}

  void load(const T* row) {
    row_ = row;
    for (int64_t s = 0; s < plan_.segments; ++s) {
      const PaddedSegment segment = plan_.segment[s];
      if (!in_place(plan_.ir_mul, segment.mul, segment.d)) {
        fetch(
            row + segment.offset, plan_.ir_mul, segment.mul, segment.d, scratch_ + segment.padded,
            padded(segment.mul));
      }
    }
  }

  Components<const T> of(int64_t p) const {
    const Path& path = plan_.path[p];
    if (in_place(plan_.ir_mul, path.x.mul, path.x.d)) {
      return {row_ + path.x.offset, path.x.mul};
    }
    return {scratch_ + plan_.layout[p].x, padded(path.x.mul)};
  }

 private:
  const ChannelwisePlan<T>& plan_;
  T* scratch_;
  const T* row_ = nullptr;
};

// The gradient of the output of a row, copied likewise; paths are gone through in their order.
template <class T>
class ArrivingGradient {
 public:
  ArrivingGradient(const ChannelwisePlan<T>& plan, T* scratch) : plan_(plan), scratch_(scratch) {}

  void load(const T* row) { row_ = row; }

  Components<const T> of(int64_t p) const {
    const Path& path = plan_.path[p];
    if (in_place(plan_.ir_mul, path.x.mul, path.out.d)) {
      return {row_ + path.out.offset, path.x.mul};
    }
    if (plan_.layout[p].first_into_output) {
      fetch(
          row_ + path.out.offset, plan_.ir_mul, path.x.mul, path.out.d, scratch_,
          padded(path.x.mul));
    }
    return {scratch_, padded(path.x.mul)};
  }

 private:
  const ChannelwisePlan<T>& plan_;
  T* scratch_;
  const T* row_ = nullptr;
};

// What passes read of a row, copied only where the tensor stores another type.
template <class S>
struct RowBuffers {
  using T = Compute<S>;

  static int64_t size(const ChannelwisePlan<T>& plan) {
    return Scratch<T>::round_up(scratch_row<S>(plan.dim_x)) +
           Scratch<T>::round_up(scratch_row<S>(plan.dim_y)) +
           Scratch<T>::round_up(scratch_row<S>(plan.dim_weight));
  }

  RowBuffers(const ChannelwisePlan<T>& plan, Scratch<T>& memory)
      : x(memory.take(scratch_row<S>(plan.dim_x))),
        y(memory.take(scratch_row<S>(plan.dim_y))),
        weight(memory.take(scratch_row<S>(plan.dim_weight))) {}

  T* x;
  T* y;
  T* weight;
};

// A padded row of gradients of the first input, written to a row of the tensor.
template <class T>
inline void put_back_first_input(const ChannelwisePlan<T>& plan, const T* from, T* to) {
  if (!plan.covers_x) {
    fill_zero(to, plan.dim_x);
  }
  for (int64_t s = 0; s < plan.segments; ++s) {
    const PaddedSegment segment = plan.segment[s];
    put_back(
        from + segment.padded, padded(segment.mul), plan.ir_mul, segment.mul, segment.d,
        to + segment.offset);
  }
}

// The same of the output.
template <class T>
inline void put_back_output(const ChannelwisePlan<T>& plan, const T* from, T* to) {
  if (!plan.covers) {
    fill_zero(to, plan.dim_out);
  }
  for (int64_t p = 0; p < plan.count; ++p) {
    const Path& path = plan.path[p];
    if (plan.layout[p].first_into_output) {
      put_back(
          from + plan.layout[p].out, padded(path.x.mul), plan.ir_mul, path.x.mul, path.out.d,
          to + path.out.offset);
    }
  }
}

}  // namespace
}  // namespace equigeo
