#pragma once

#include "ops/copywise_product.h"
#include "ops/cpu/isa.h"

namespace equigeo {

constexpr int64_t kCopyRows = 32;  // rows that kernels compute together, at most

EQUIGEO_DECLARE_KERNELS(CopywiseProduct, copywise_product_rows);
EQUIGEO_DECLARE_KERNELS(CopywiseProductBackward, copywise_product_backward_rows);

}  // namespace equigeo
