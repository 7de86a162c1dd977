#pragma once

#include "args/segments.h"
#include "kernels/cpu/isa.h"

namespace equigeo {

EQUIGEO_DECLARE_KERNELS(AttentionConv, attention_conv_rows);
// Over parts of the targets, see AttentionConvBackward::rows_of_part.
EQUIGEO_DECLARE_KERNELS(AttentionConvBackward, attention_conv_backward_parts);
EQUIGEO_DECLARE_KERNELS(AttentionConvBackward, attention_conv_backward_sources);

// Targets whose weights of attention are computed at a time, so that packing the matrices is a
// small part of the work.
constexpr int64_t kAttendedRows = 256;

}  // namespace equigeo
