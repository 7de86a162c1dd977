#pragma once

#include "ops/channelwise_product.h"
#include "ops/cpu/isa.h"

namespace equigeo {

constexpr int64_t kBlock = 16;  // rows whose matrices are computed together

EQUIGEO_DECLARE_KERNELS(ChannelwiseProduct, channelwise_product_rows);
EQUIGEO_DECLARE_KERNELS(ChannelwiseProductBackward, channelwise_product_backward_rows);

}  // namespace equigeo
