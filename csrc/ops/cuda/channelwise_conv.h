#pragma once

#include "ops/channelwise_conv.h"

namespace equigeo {

// Bytes of scratch memory that the op needs on the device.
template <class S>
int64_t scratch_size(const ChannelwiseConv<S>& op);
template <class S>
int64_t scratch_size(const ChannelwiseConvBackward<S>& op);

// Queue the op on a stream; null, or what went wrong.
template <class S>
const char* launch(const ChannelwiseConv<S>& op, void* scratch, void* stream);
template <class S>
const char* launch(const ChannelwiseConvBackward<S>& op, void* scratch, void* stream);

}  // namespace equigeo
