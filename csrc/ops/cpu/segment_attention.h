#pragma once

#include "ops/cpu/isa.h"
#include "ops/segment_attention.h"

namespace equigeo {

EQUIGEO_DECLARE_KERNELS(SegmentAttention, segment_attention_rows);

}  // namespace equigeo
