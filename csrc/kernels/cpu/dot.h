// Dot product of two rows.
#pragma once

#include "kernels/cpu/pack.h"
#include "math/segment_attention.h"

namespace equigeo {
namespace {

template <class T>
EQUIGEO_HOST_DEVICE T dot(const T* a, const T* b, int64_t channels) {
  constexpr int64_t kStep = kWidth<WidePack<T>, T>;
  const int64_t whole = channels - channels % kStep;
  const T rest = partial_dot<T>(a, b, whole, channels, 1);
  if (whole == 0) {
    return rest;
  }
  const auto lanes = partial_dot<WidePack<T>>(a, b, 0, whole, kStep);
  return rest + sum_lanes<T, EQUIGEO_PACK_BYTES>(lanes);
}

}  // namespace
}  // namespace equigeo
