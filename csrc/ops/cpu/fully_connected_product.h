#pragma once

#include "ops/cpu/isa.h"
#include "ops/fully_connected_product.h"

namespace equigeo {

constexpr int64_t kMixedRows = 16;  // rows whose matrices are computed together, at most

EQUIGEO_DECLARE_KERNELS(FullyConnectedProduct, fully_connected_product_rows);
EQUIGEO_DECLARE_KERNELS(FullyConnectedProductBackward, fully_connected_product_backward_rows);

}  // namespace equigeo
