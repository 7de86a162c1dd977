#pragma once

#include "args/channelwise_conv.h"
#include "kernels/cpu/channelwise_plan.h"
#include "kernels/cpu/isa.h"

namespace equigeo {

constexpr int64_t kColumns = 16;  // of padded rows that are added together

template <class S>
struct PlannedChannelwiseConv : ChannelwiseConv<S> {
  ChannelwisePlan<Compute<S>> plan;
  const Compute<S>* padded_x;  // (sources, plan.padded_x)
};

template <class S>
struct PlannedChannelwiseConvBackward : ChannelwiseConvBackward<S> {
  ChannelwisePlan<Compute<S>> plan;
  const Compute<S>* padded_grad;  // (targets, plan.padded_out)
  const Compute<S>* padded_x;     // (sources, plan.padded_x)
  int64_t first, count;           // the positions of edges that are computed together
  Compute<S>* share;              // (count, plan.padded_x) what they add to `sum`, or null
  Compute<S>* sum;                // (sources, plan.padded_x) gradients of the first input
};

template <class S>
struct PlannedChannelwiseConvDoubleBackward : ChannelwiseConvDoubleBackward<S> {
  ChannelwisePlan<Compute<S>> plan;
  const Compute<S>* padded_grad;       // (targets, plan.padded_out)
  const Compute<S>* padded_x;          // (sources, plan.padded_x)
  const Compute<S>* padded_x_tangent;  // or null
};

// Rows of a tensor brought into the layout of kernels.
template <class S>
struct PadRows {
  ChannelwisePlan<Compute<S>> plan;
  const S* from;
  Compute<S>* to;
  bool output;  // rows of the output, not of the first input
};

// The gradient of the first input brought back into the layout of its tensor.
template <class S>
struct PutBackRows {
  ChannelwisePlan<Compute<S>> plan;
  const Compute<S>* from;
  S* to;
};

EQUIGEO_DECLARE_KERNELS(PadRows, pad_rows);
EQUIGEO_DECLARE_KERNELS(PutBackRows, put_back_rows);
EQUIGEO_DECLARE_KERNELS(PlannedChannelwiseConv, channelwise_conv_targets);
EQUIGEO_DECLARE_KERNELS(PlannedChannelwiseConvBackward, channelwise_conv_backward_edges);
EQUIGEO_DECLARE_KERNELS(PlannedChannelwiseConvBackward, channelwise_conv_backward_shares);
EQUIGEO_DECLARE_KERNELS(
    PlannedChannelwiseConvDoubleBackward, channelwise_conv_double_backward_targets);
EQUIGEO_DECLARE_KERNELS(
    PlannedChannelwiseConvDoubleBackward, channelwise_conv_double_backward_sources);

}  // namespace equigeo
