#pragma once

#include "ops/axis_flags.h"

namespace equigeo {

// Queue the op on a stream; null, or the name of CUDA's error.
const char* launch(const AxisFlags<float>& op, void* stream);
const char* launch(const AxisFlags<double>& op, void* stream);

}  // namespace equigeo
