#pragma once

#include "args/relu_batch_norm.h"
#include "kernels/cpu/isa.h"

namespace equigeo {

// Over parts of the rows, see RectifiedSum::rows_of_part.
EQUIGEO_DECLARE_KERNELS(RectifiedSum, rectified_sum_parts);
EQUIGEO_DECLARE_KERNELS(ReluBatchNormBackward, relu_batch_norm_backward_parts);
// Over rows.
EQUIGEO_DECLARE_KERNELS(ReluBatchNorm, relu_batch_norm_rows);
EQUIGEO_DECLARE_KERNELS(ReluBatchNormBackward, relu_batch_norm_backward_rows);

}  // namespace equigeo
