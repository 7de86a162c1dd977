#pragma once

#include "ops/channelwise_conv.h"
#include "ops/cpu/isa.h"

namespace equigeo {

EQUIGEO_DECLARE_KERNELS(PadRows, pad_rows);
EQUIGEO_DECLARE_KERNELS(ChannelwiseConv, channelwise_conv_targets);
EQUIGEO_DECLARE_KERNELS(ChannelwiseConvBackward, channelwise_conv_backward_edges);
EQUIGEO_DECLARE_KERNELS(ChannelwiseConvBackward, channelwise_conv_backward_sources);

}  // namespace equigeo
