#pragma once

#include "ops/cpu/isa.h"
#include "ops/gather_sum.h"

namespace equigeo {

EQUIGEO_DECLARE_KERNELS(GatherSum, gather_sum_rows);

}  // namespace equigeo
