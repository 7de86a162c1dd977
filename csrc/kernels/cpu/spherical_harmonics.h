#pragma once

#include "args/spherical_harmonics.h"
#include "kernels/cpu/isa.h"

namespace equigeo {

EQUIGEO_DECLARE_KERNELS(SphericalHarmonics, spherical_harmonics_rows);
EQUIGEO_DECLARE_KERNELS(SphericalHarmonicsBackward, spherical_harmonics_backward_rows);
EQUIGEO_DECLARE_KERNELS(SphericalHarmonicsDoubleBackward, spherical_harmonics_double_backward_rows);

}  // namespace equigeo
