#pragma once

#include "args/segments.h"
#include "kernels/cpu/isa.h"

namespace equigeo {

EQUIGEO_DECLARE_KERNELS(SegmentAttention, segment_attention_rows);
EQUIGEO_DECLARE_KERNELS(SegmentAttentionBackward, segment_attention_backward_targets);
EQUIGEO_DECLARE_KERNELS(SegmentAttentionBackward, segment_attention_backward_sources);

}  // namespace equigeo
