#pragma once

#include "ops/channelwise_product.h"

namespace equigeo {

// Bytes of scratch memory that the op needs on the device.
template <class S>
int64_t scratch_size(const ChannelwiseProduct<S>& op);
template <class S>
int64_t scratch_size(const ChannelwiseProductBackward<S>& op);

// Queue the op on a stream; null, or what went wrong.
template <class S>
const char* launch(const ChannelwiseProduct<S>& op, void* scratch, void* stream);
template <class S>
const char* launch(const ChannelwiseProductBackward<S>& op, void* scratch, void* stream);

}  // namespace equigeo
