// Arguments of the ops, for any device: contiguous arrays whose sizes have been checked.
#pragma once

#include <stdint.h>

namespace equigeo {

template <class T>
struct SegmentAttention {
  const T* values;        // (sources, heads, channels)
  const T* logits;        // (edges, heads)
  const int64_t* source;  // (edges,)
  const int64_t* ptr;     // (targets + 1,)
  int64_t sources, targets, edges, heads, channels;
  T* out;        // (targets, heads, channels)
  T* attention;  // (edges, heads)
};

template <class T>
struct SegmentAttentionBackward {
  const T* grad_out;          // (targets, heads, channels)
  const T* grad_attention;    // (edges, heads) or null
  const T* values;            // (sources, heads, channels)
  const T* attention;         // (edges, heads)
  const int64_t* source;      // (edges,)
  const int64_t* ptr;         // (targets + 1,)
  const int64_t* target;      // (edges,)
  const int64_t* back_order;  // (edges,)
  const int64_t* back_ptr;    // (sources + 1,)
  int64_t sources, targets, edges, heads, channels;
  T* grad_values;  // (sources, heads, channels)
  T* grad_logits;  // (edges, heads)
};

}  // namespace equigeo
