// Gradients of one path of a product. Most of what a compiler makes of products is in these loops,
// so that they are compiled once, not with each pass.
#pragma once

#include "kernels/cpu/components.h"
#include "kernels/cpu/isa.h"

namespace equigeo {

// By the channels and by the weights, as `transpose_matrix` of math/edge_matrix.h.
template <class T>
struct Transpose {
  const T* matrix;
  int64_t d3;
  Components<const T> grad, x;
  const T* weight;
  T* grad_x;         // as x, or null
  T* grad_weight;    // or null
  T* weighted;       // as x, or null
  bool add = false;  // to grad_weight
};

// The gradient of the matrix, from what it acts on.
template <class T>
struct OuterProduct {
  int64_t d3;
  Components<const T> grad, weighted;
  T* gradient;
  bool add = false;  // to it
};

// For the number of components of the first input.
void EQUIGEO_FOR_ISA(transpose_channels)(int64_t d1, const Transpose<float>& op);
void EQUIGEO_FOR_ISA(transpose_channels)(int64_t d1, const Transpose<double>& op);
void EQUIGEO_FOR_ISA(outer_product)(int64_t d1, const OuterProduct<float>& op);
void EQUIGEO_FOR_ISA(outer_product)(int64_t d1, const OuterProduct<double>& op);

namespace {

// Call run.template with<D1>() for the number of components of the first input.
template <class Run>
EQUIGEO_HOST_DEVICE void for_components(int64_t d1, const Run& run) {
  switch (d1) {
    case 1:
      return run.template with<1>();
    case 3:
      return run.template with<3>();
    case 5:
      return run.template with<5>();
    case 7:
      return run.template with<7>();
    case 9:
      return run.template with<9>();
    case 11:
      return run.template with<11>();
    default:
      return run.template with<13>();
  }
}

template <class T>
EQUIGEO_HOST_DEVICE void for_components(int64_t d1, const Transpose<T>& op) {
  EQUIGEO_FOR_ISA(transpose_channels)(d1, op);
}

template <class T>
EQUIGEO_HOST_DEVICE void for_components(int64_t d1, const OuterProduct<T>& op) {
  EQUIGEO_FOR_ISA(outer_product)(d1, op);
}

}  // namespace
}  // namespace equigeo
