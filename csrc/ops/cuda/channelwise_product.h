#pragma once

#include "ops/channelwise_product.h"

namespace equigeo {

// Bytes of scratch memory that the op needs on the device.
template <class T>
int64_t scratch_size(const ChannelwiseProduct<T>& op);
template <class T>
int64_t scratch_size(const ChannelwiseProductBackward<T>& op);

// Queue the op on a stream; null, or what went wrong.
template <class T>
const char* launch(const ChannelwiseProduct<T>& op, void* scratch, void* stream);
template <class T>
const char* launch(const ChannelwiseProductBackward<T>& op, void* scratch, void* stream);

}  // namespace equigeo
