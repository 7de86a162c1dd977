#pragma once

#include "args/symmetric_eigen.h"
#include "kernels/cpu/isa.h"

namespace equigeo {

EQUIGEO_DECLARE_KERNELS(SymmetricEigen, symmetric_eigen_rows);

}  // namespace equigeo
