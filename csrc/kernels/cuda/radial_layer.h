// Weights of edges that are linear in a few hidden numbers of each: hidden @ radial.
#pragma once

#include <stdint.h>

namespace equigeo {

template <class T>
struct RadialLayer {
  const T* hidden;  // (edges, size), or null where weights are given
  const T* radial;  // (size, stride)
  int64_t size, stride;
};

}  // namespace equigeo
