// Arguments of ops on segments, for any device: contiguous arrays whose sizes have been checked.
#pragma once

#include "args/graph.h"

namespace equigeo {

template <class T>
struct GatherSum {
  const T* x;            // (rows, channels)
  const int64_t* index;  // (edges,)
  const int64_t* ptr;    // (segments + 1,)
  int64_t rows, segments, edges, channels;
  T* out;  // (segments, channels)
};

template <class T>
struct SegmentAttention : Graph {
  const T* values;  // (sources, heads, channels)
  const T* logits;  // (edges, heads)
  int64_t heads, channels;
  T* out;        // (targets, heads, channels)
  T* attention;  // (edges, heads)
};

template <class T>
struct SegmentAttentionBackward : Graph {
  const T* grad_out;        // (targets, heads, channels)
  const T* grad_attention;  // (edges, heads) or null
  const T* values;          // (sources, heads, channels)
  const T* attention;       // (edges, heads)
  int64_t heads, channels;
  T* grad_values;  // (sources, heads, channels)
  T* grad_logits;  // (edges, heads)
};

template <class T>
struct AttentionConv : Graph {
  const T* x;            // (sources, channels)
  const T* logits;       // (edges, heads)
  const T* weight;       // (heads, channels_out, channels)
  const T* self_weight;  // the same, or null; there are then as many targets as sources
  int64_t heads, channels, channels_out;
  T* out;        // (targets, heads, channels_out)
  T* attention;  // (edges, heads)
};

template <class T>
struct AttentionConvBackward : Graph {
  const T* grad_out;        // (targets, heads, channels_out)
  const T* grad_attention;  // (edges, heads) or null
  const T* x;               // (sources, channels)
  const T* attention;       // (edges, heads)
  const T* weight;          // (heads, channels_out, channels)
  const T* self_weight;     // the same, or null
  int64_t heads, channels, channels_out;
  int64_t rows_of_part;  // targets whose share of the gradients of the weights is summed together
  T* grad_x;             // (sources, channels)
  T* grad_logits;        // (edges, heads)
  T* weight_parts;       // (parts, heads, channels_out, channels)
  T* self_weight_parts;  // the same, or null
};

}  // namespace equigeo
