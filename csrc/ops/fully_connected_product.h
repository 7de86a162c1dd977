// Arguments of the op, for any device: contiguous arrays whose sizes have been checked.
#pragma once

#include "ops/channelwise_product.h"
#include "ops/connection_view.h"

namespace equigeo {

// A segment of the output, where kernels keep it with components outside and padded channels.
struct Slot {
  int64_t offset, mul, d, place;
};

template <class T>
struct FullyConnectedPlan {
  Paths<T> paths;  // without outputs
  const Slot* slot;
  int64_t slots;
  const int64_t* slot_of;  // of each path
  int64_t padded_slots;    // elements of all slots
  int64_t largest_coupling;
  int64_t largest_mul2;
  bool covers, covers_weight;  // whether paths reach all of the output, all weights
};

template <class T>
struct FullyConnectedProduct {
  ConnectionView<T> table;
  FullyConnectedPlan<T> plan;
  const T* x;       // (rows, dim_x)
  const T* y;       // (rows, dim_y)
  const T* weight;  // (rows, dim_weight)
  int64_t rows;
  T* out;  // (rows, dim_out)
};

template <class T>
struct FullyConnectedProductBackward {
  ConnectionView<T> table;
  FullyConnectedPlan<T> plan;
  const T* grad;  // (rows, dim_out)
  const T* x;
  const T* y;
  const T* weight;
  int64_t rows;
  T* grad_x;
  T* grad_y;
  T* grad_weight;
};

}  // namespace equigeo
