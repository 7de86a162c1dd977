#pragma once

#include "ops/cpu/isa.h"
#include "ops/symmetric_contraction.h"

namespace equigeo {

EQUIGEO_DECLARE_KERNELS(SymmetricContraction, symmetric_contraction_rows);
// Over runs, then over the weights of all sets.
EQUIGEO_DECLARE_KERNELS(SymmetricContractionGradients, symmetric_contraction_runs);
EQUIGEO_DECLARE_KERNELS(SymmetricContractionGradients, symmetric_contraction_sums);

}  // namespace equigeo
