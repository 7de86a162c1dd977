#pragma once

#include "ops/copywise_product.h"

namespace equigeo {

// Queue the op on a stream; null, or the name of CUDA's error.
const char* launch(const CopywiseProduct<float>& op, void* stream);
const char* launch(const CopywiseProduct<double>& op, void* stream);
const char* launch(const CopywiseProductBackward<float>& op, void* stream);
const char* launch(const CopywiseProductBackward<double>& op, void* stream);

}  // namespace equigeo
