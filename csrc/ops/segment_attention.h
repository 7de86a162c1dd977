// Arguments of the op, for any device: contiguous arrays whose sizes have been checked.
#pragma once

#include <stdint.h>

namespace equigeo {

template <class T>
struct SegmentAttention {
  const T* values;        // (sources, heads, channels)
  const T* logits;        // (edges, heads)
  const int64_t* source;  // (edges,)
  const int64_t* ptr;     // (targets + 1,)
  int64_t sources, targets, heads, channels;
  T* out;        // (targets, heads, channels)
  T* attention;  // (edges, heads)
};

}  // namespace equigeo
