#pragma once

#include "ops/spherical_harmonics.h"

namespace equigeo {

// Queue the op on a stream; null, or the name of CUDA's error.
const char* launch(const SphericalHarmonics<float>& op, void* stream);
const char* launch(const SphericalHarmonics<double>& op, void* stream);
const char* launch(const SphericalHarmonicsBackward<float>& op, void* stream);
const char* launch(const SphericalHarmonicsBackward<double>& op, void* stream);
const char* launch(const SphericalHarmonicsDoubleBackward<float>& op, void* stream);
const char* launch(const SphericalHarmonicsDoubleBackward<double>& op, void* stream);

}  // namespace equigeo
