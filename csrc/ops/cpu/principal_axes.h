#pragma once

#include "ops/cpu/isa.h"
#include "ops/principal_axes.h"

namespace equigeo {

EQUIGEO_DECLARE_KERNELS(PrincipalAxes, principal_axes_clouds);
EQUIGEO_DECLARE_KERNELS(PrincipalAxesBackward, principal_axes_backward_clouds);

}  // namespace equigeo
