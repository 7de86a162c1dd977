// One path of a fully connected product, for all channels of one row, forward and backward.
//
// Couplings and the channels of the output are in the layout of kernels (see components.h); weights
// are read from the tensor, in registers that may reach over the end of a row of them.
#pragma once

#include "kernels/cpu/edge_product.h"
#include "math/channel_mixing.h"

namespace equigeo {

// A path of one row: its couplings, its weights and the channels of its output.
template <class T>
struct MixedPath {
  Couplings size;
  const T* couplings;
  const T* weight;
  int64_t mul3, out_step;
  T* out;
};

// Gradients of the couplings and of the weights; null pointers are not wanted.
template <class T>
struct MixedGradients {
  Couplings size;
  const T* couplings;
  const T* weight;
  int64_t mul3, grad_step;
  const T* grad;
  T* grad_couplings;  // added to
  T* grad_weight;
  T* slopes;  // for one register of channels u, each a register
};

// For the number of components of the output.
void EQUIGEO_FOR_ISA(mix_path)(int64_t d3, const MixedPath<float>& path);
void EQUIGEO_FOR_ISA(mix_path)(int64_t d3, const MixedPath<double>& path);
void EQUIGEO_FOR_ISA(mixed_gradients)(int64_t d3, const MixedGradients<float>& path);
void EQUIGEO_FOR_ISA(mixed_gradients)(int64_t d3, const MixedGradients<double>& path);

namespace {

template <class T>
constexpr int64_t kLane = kWidth<WidePack<T>, T>;

template <class T>
EQUIGEO_HOST_DEVICE void for_components(int64_t d3, const MixedPath<T>& path) {
  EQUIGEO_FOR_ISA(mix_path)(d3, path);
}

template <class T>
EQUIGEO_HOST_DEVICE void for_components(int64_t d3, const MixedGradients<T>& path) {
  EQUIGEO_FOR_ISA(mixed_gradients)(d3, path);
}

}  // namespace
}  // namespace equigeo
