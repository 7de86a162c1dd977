#pragma once

#include "ops/principal_axes.h"

namespace equigeo {

// Queue the op on a stream; null, or the name of CUDA's error.
const char* launch(const PrincipalAxes<float>& op, void* stream);
const char* launch(const PrincipalAxes<double>& op, void* stream);
const char* launch(const PrincipalAxesBackward<float>& op, void* stream);
const char* launch(const PrincipalAxesBackward<double>& op, void* stream);

}  // namespace equigeo
