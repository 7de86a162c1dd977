#pragma once

#include "ops/symmetric_eigen.h"

namespace equigeo {

// Queue the op on a stream; null, or the name of CUDA's error.
const char* launch(const SymmetricEigen<float>& op, void* stream);
const char* launch(const SymmetricEigen<double>& op, void* stream);

}  // namespace equigeo
