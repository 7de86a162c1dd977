// Arguments of the ops, for any device: contiguous arrays whose sizes have been checked.
#pragma once

#include <stdint.h>

namespace equigeo {

template <class T>
struct AttentionConv {
  const T* x;             // (sources, channels)
  const T* logits;        // (edges, heads)
  const T* weight;        // (heads, channels_out, channels)
  const T* self_weight;   // the same, or null; there are then as many targets as sources
  const int64_t* source;  // (edges,)
  const int64_t* ptr;     // (targets + 1,)
  int64_t sources, targets, edges, heads, channels, channels_out;
  T* out;        // (targets, heads, channels_out)
  T* attention;  // (edges, heads)
};

template <class T>
struct AttentionConvBackward {
  const T* grad_out;          // (targets, heads, channels_out)
  const T* grad_attention;    // (edges, heads) or null
  const T* x;                 // (sources, channels)
  const T* attention;         // (edges, heads)
  const T* weight;            // (heads, channels_out, channels)
  const T* self_weight;       // the same, or null
  const int64_t* source;      // (edges,)
  const int64_t* ptr;         // (targets + 1,)
  const int64_t* target;      // (edges,)
  const int64_t* back_order;  // (edges,)
  const int64_t* back_ptr;    // (sources + 1,)
  int64_t sources, targets, edges, heads, channels, channels_out;
  int64_t rows_of_part;  // targets whose share of the gradients of the weights is summed together
  T* grad_x;             // (sources, channels)
  T* grad_logits;        // (edges, heads)
  T* weight_parts;       // (parts, heads, channels_out, channels)
  T* self_weight_parts;  // the same, or null
};

}  // namespace equigeo
