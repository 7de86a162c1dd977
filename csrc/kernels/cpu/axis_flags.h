#pragma once

#include "args/axis_flags.h"
#include "kernels/cpu/isa.h"

namespace equigeo {

EQUIGEO_DECLARE_KERNELS(AxisFlags, axis_flags_clouds);

}  // namespace equigeo
