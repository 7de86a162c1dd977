#pragma once

#include "args/products.h"
#include "kernels/cpu/channelwise_plan.h"
#include "kernels/cpu/isa.h"

namespace equigeo {

constexpr int64_t kBlock = 16;  // rows whose matrices are computed together

template <class S>
struct PlannedChannelwiseProduct : ChannelwiseProduct<S> {
  ChannelwisePlan<Compute<S>> plan;
};

template <class S>
struct PlannedChannelwiseProductBackward : ChannelwiseProductBackward<S> {
  ChannelwisePlan<Compute<S>> plan;
};

template <class S>
struct PlannedChannelwiseProductDoubleBackward : ChannelwiseProductDoubleBackward<S> {
  ChannelwisePlan<Compute<S>> plan;
};

EQUIGEO_DECLARE_KERNELS(PlannedChannelwiseProduct, channelwise_product_rows);
EQUIGEO_DECLARE_KERNELS(PlannedChannelwiseProductBackward, channelwise_product_backward_rows);
EQUIGEO_DECLARE_KERNELS(
    PlannedChannelwiseProductDoubleBackward, channelwise_product_double_backward_rows);

}  // namespace equigeo
