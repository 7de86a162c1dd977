#pragma once

#include "args/principal_axes.h"
#include "kernels/cpu/isa.h"

namespace equigeo {

EQUIGEO_DECLARE_KERNELS(PrincipalAxes, principal_axes_clouds);
EQUIGEO_DECLARE_KERNELS(PrincipalAxesBackward, principal_axes_backward_clouds);

}  // namespace equigeo
