#pragma once

#include "args/gather_sum.h"
#include "kernels/cpu/isa.h"

namespace equigeo {

EQUIGEO_DECLARE_KERNELS(GatherSum, gather_sum_rows);

}  // namespace equigeo
