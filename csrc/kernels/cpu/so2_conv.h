#pragma once

#include "args/so2_conv.h"
#include "kernels/cpu/isa.h"

namespace equigeo {

// Over orders: matrices as kernels read them.
EQUIGEO_DECLARE_KERNELS(SO2Pack, so2_pack_orders);
// Over targets.
EQUIGEO_DECLARE_KERNELS(SO2Conv, so2_conv_rows);
// Over parts of the sources, see SO2ConvBackward::rows_of_part.
EQUIGEO_DECLARE_KERNELS(SO2ConvBackward, so2_conv_backward_parts);

// A matrix (inner, columns) as kernels read it.
template <class T>
struct SO2PackRadial {
  const T* matrix;
  int64_t inner, columns;
  bool transposed;  // the matrix is (columns, inner)
  T* packed;
};
EQUIGEO_DECLARE_KERNELS(SO2PackRadial, so2_pack_radial);

}  // namespace equigeo
