#pragma once

#include "ops/cpu/isa.h"
#include "ops/symmetric_eigen.h"

namespace equigeo {

EQUIGEO_DECLARE_KERNELS(SymmetricEigen, symmetric_eigen_rows);

}  // namespace equigeo
