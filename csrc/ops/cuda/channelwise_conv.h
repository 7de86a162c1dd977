#pragma once

#include "ops/channelwise_conv.h"

namespace equigeo {

// Bytes of scratch memory that the op needs on the device.
template <class T>
int64_t scratch_size(const ChannelwiseConv<T>& op);
template <class T>
int64_t scratch_size(const ChannelwiseConvBackward<T>& op);

// Queue the op on a stream; null, or what went wrong.
template <class T>
const char* launch(const ChannelwiseConv<T>& op, void* scratch, void* stream);
template <class T>
const char* launch(const ChannelwiseConvBackward<T>& op, void* scratch, void* stream);

}  // namespace equigeo
