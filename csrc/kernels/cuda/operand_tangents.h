// Tangents of the operands of a product.
#pragma once

namespace equigeo {

// Null where they are zero.
template <class S>
struct OperandTangents {
  const S *x, *y, *weight;
};

}  // namespace equigeo
