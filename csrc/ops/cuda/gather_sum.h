#pragma once

#include "ops/gather_sum.h"

namespace equigeo {

// Queue the op on a stream; null, or the name of CUDA's error.
const char* launch(const GatherSum<float>& op, void* stream);
const char* launch(const GatherSum<double>& op, void* stream);

}  // namespace equigeo
