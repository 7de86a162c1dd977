#pragma once

#include "ops/cpu/isa.h"
#include "ops/segment_attention_backward.h"

namespace equigeo {

EQUIGEO_DECLARE_KERNELS(SegmentAttentionBackward, segment_attention_backward_targets);
EQUIGEO_DECLARE_KERNELS(SegmentAttentionBackward, segment_attention_backward_sources);

}  // namespace equigeo
