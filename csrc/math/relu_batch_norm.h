// Batch normalisation of a rectified sum: some neighbouring channels, row by row.
//
// Comparisons are such that what is not a number stays so.
#pragma once

#include "args/relu_batch_norm.h"
#include "math/host_device.h"

namespace equigeo {
namespace {

template <class Pack>
EQUIGEO_HOST_DEVICE Pack rectified(Pack value) {
  return value < 0 ? Pack{} : value;
}

// `value` where `sign` is positive.
template <class Pack>
EQUIGEO_HOST_DEVICE Pack where_positive(Pack sign, Pack value) {
  return sign <= 0 ? Pack{} : value;
}

// The sum before it is rectified, at element `at`.
template <class Pack, class T>
EQUIGEO_HOST_DEVICE Pack sum_at(const RectifiedSum<T>& sum, int64_t at) {
  const Pack value = Memory<Pack, T>::load(sum.x + at);
  return sum.added == nullptr ? value : value + Memory<Pack, T>::load(sum.added + at);
}

// A result from the rectified sum.
template <class Pack>
EQUIGEO_HOST_DEVICE Pack scaled(Pack value, Pack scale, Pack shift) {
  return scale * value + shift;
}

}  // namespace
}  // namespace equigeo
