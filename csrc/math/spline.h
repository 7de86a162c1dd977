// Functions of splines at a position.
#pragma once

#include "args/channelwise_conv.h"
#include "math/host_device.h"

namespace equigeo {
namespace {

// Function f and its derivative, by Horner's rule.
template <class T>
EQUIGEO_HOST_DEVICE void evaluate_function(
    const SplineWeights<T>& spline, int64_t f, T position, T& value, T& slope) {
  T sum = 0, sum_slope = 0;
  for (int64_t k = spline.functions; k-- > 0;) {
    sum_slope = sum_slope * position + sum;
    sum = sum * position + spline.basis[k * spline.functions + f];
  }
  value = sum;
  slope = sum_slope;
}

}  // namespace
}  // namespace equigeo
