#pragma once

#include "ops/grid_product.h"

namespace equigeo {

// Queue the op on a stream; null, or the name of CUDA's error.
const char* launch(const GridProduct<float>& op, void* stream);
const char* launch(const GridProduct<double>& op, void* stream);

}  // namespace equigeo
