#pragma once

#include "args/symmetric_contraction.h"
#include "kernels/cpu/isa.h"

namespace equigeo {

EQUIGEO_DECLARE_KERNELS(SymmetricContraction, symmetric_contraction_rows);
// Over runs, then over the weights of all sets.
EQUIGEO_DECLARE_KERNELS(SymmetricContractionGradients, symmetric_contraction_runs);
EQUIGEO_DECLARE_KERNELS(SymmetricContractionGradients, symmetric_contraction_sums);

}  // namespace equigeo
