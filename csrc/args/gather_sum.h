// Arguments of the op, for any device: contiguous arrays whose sizes have been checked.
#pragma once

#include <stdint.h>

namespace equigeo {

template <class T>
struct GatherSum {
  const T* x;            // (rows, channels)
  const int64_t* index;  // (edges,)
  const int64_t* ptr;    // (segments + 1,)
  int64_t rows, segments, edges, channels;
  T* out;  // (segments, channels)
};

}  // namespace equigeo
