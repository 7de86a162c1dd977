#pragma once

#include "ops/fully_connected_product.h"

namespace equigeo {

// Queue the op on a stream; null, or the name of CUDA's error.
const char* launch(const FullyConnectedProduct<float>& op, void* stream);
const char* launch(const FullyConnectedProduct<double>& op, void* stream);
const char* launch(const FullyConnectedProductBackward<float>& op, void* stream);
const char* launch(const FullyConnectedProductBackward<double>& op, void* stream);

}  // namespace equigeo
