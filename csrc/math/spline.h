// Functions of splines at a position.
#pragma once

#include "args/channelwise_conv.h"
#include "math/host_device.h"

namespace equigeo {
namespace {

// The functions from f on that fit a pack and their derivatives, by Horner's rule.
template <class Pack, class T>
EQUIGEO_HOST_DEVICE void evaluate_functions(
    const SplineWeights<T>& spline, int64_t f, T position, Pack& value, Pack& slope) {
  value = slope = Pack{};
  for (int64_t k = spline.functions + 1; k-- > 0;) {
    slope = slope * position + value;
    value = value * position + Memory<Pack, T>::load(spline.basis + k * spline.basis_stride + f);
  }
}

}  // namespace
}  // namespace equigeo
