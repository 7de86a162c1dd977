#pragma once

#include "args/segments.h"
#include "kernels/cpu/isa.h"

namespace equigeo {

EQUIGEO_DECLARE_KERNELS(GatherSum, gather_sum_rows);

}  // namespace equigeo
