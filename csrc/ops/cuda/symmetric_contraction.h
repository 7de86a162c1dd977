#pragma once

#include "ops/symmetric_contraction.h"

namespace equigeo {

// Queue the op on a stream; null, or the name of CUDA's error.
const char* launch(const SymmetricContraction<float>& op, void* stream);
const char* launch(const SymmetricContraction<double>& op, void* stream);
const char* launch(const SymmetricContractionGradients<float>& op, int64_t runs, void* stream);
const char* launch(const SymmetricContractionGradients<double>& op, int64_t runs, void* stream);

}  // namespace equigeo
