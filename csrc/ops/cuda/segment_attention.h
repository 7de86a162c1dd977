#pragma once

#include "ops/segment_attention.h"

namespace equigeo {

// Queue the op on a stream; null, or the name of CUDA's error.
const char* launch(const SegmentAttention<float>& op, void* stream);
const char* launch(const SegmentAttention<double>& op, void* stream);

}  // namespace equigeo
