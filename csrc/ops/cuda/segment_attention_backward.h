#pragma once

#include "ops/segment_attention_backward.h"

namespace equigeo {

// Queue the op on a stream; null, or the name of CUDA's error.
const char* launch(const SegmentAttentionBackward<float>& op, void* stream);
const char* launch(const SegmentAttentionBackward<double>& op, void* stream);

}  // namespace equigeo
