#pragma once

#include "ops/axis_flags.h"
#include "ops/cpu/isa.h"

namespace equigeo {

EQUIGEO_DECLARE_KERNELS(AxisFlags, axis_flags_clouds);

}  // namespace equigeo
