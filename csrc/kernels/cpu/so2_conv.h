#pragma once

#include "args/so2_conv.h"
#include "kernels/cpu/isa.h"

namespace equigeo {

// Matrices as kernels read them: those of all orders, of the convolution or of its adjoint.
template <class T>
struct SO2Pack {
  SO2Plan plan;
  const T* weight;  // (weight_numel,)
  bool adjoint;
  T* packed;
};

// A matrix (inner, columns) as kernels read it.
template <class T>
struct SO2PackRadial {
  const T* matrix;
  int64_t inner, columns;
  bool transposed;  // the matrix is (columns, inner)
  T* packed;
};

// As in SO2Modulation, with a packed map and, for gradients, its packed transpose.
template <class T>
struct SO2PackedModulation {
  const T* scale;
  const T* radial;
  const T* radial_adjoint;
  int64_t numbers;
};

template <class T>
struct SO2PackedConv : SO2Conv<T> {
  const T* matrices;
  SO2PackedModulation<T> packed;
};

template <class T>
struct SO2PackedConvBackward : SO2ConvBackward<T> {
  const T* matrices;
  const T* adjoint;
  SO2PackedModulation<T> packed;
  int64_t rows_of_part;  // sources whose share of the gradients of weights is summed together
  T* weight_parts;       // (parts, weight_numel)
  T* bias_parts;         // (parts, width_out[0]) or null
  T* radial_parts;       // (parts, numbers * scale_numel) or null
};

// Over orders.
EQUIGEO_DECLARE_KERNELS(SO2Pack, so2_pack_orders);
EQUIGEO_DECLARE_KERNELS(SO2PackRadial, so2_pack_radial);
// Over targets.
EQUIGEO_DECLARE_KERNELS(SO2PackedConv, so2_conv_rows);
// Over parts of the sources, see rows_of_part.
EQUIGEO_DECLARE_KERNELS(SO2PackedConvBackward, so2_conv_backward_parts);

}  // namespace equigeo
