// Formats in which features are stored.
#pragma once

#include <stdint.h>

namespace equigeo {

// bfloat16 is a format of storage: the upper half of a float. Nothing is computed in it.
struct Bf16 {
  uint16_t bits;
};

template <class S>
struct ComputeOf {
  using Type = S;
};

template <>
struct ComputeOf<Bf16> {
  using Type = float;
};

// What features stored as S are computed in.
template <class S>
using Compute = typename ComputeOf<S>::Type;

}  // namespace equigeo
