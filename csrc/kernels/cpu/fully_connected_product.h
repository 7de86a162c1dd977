// A fully connected product in the form of its kernels: couplings as those of a channelwise
// product, which are then mixed into segments of the output.
#pragma once

#include "args/products.h"
#include "kernels/cpu/channelwise_plan.h"
#include "kernels/cpu/isa.h"

namespace equigeo {

template <class T>
struct FullyConnectedPlan {
  ChannelwisePlan<T> paths;     // without outputs
  const PaddedSegment* output;  // segments of the output
  int64_t outputs;
  const int64_t* output_of;  // of each path
  int64_t padded_outputs;    // elements of all of them
  int64_t largest_coupling;
  int64_t largest_mul2;
  bool covers, covers_weight;  // whether paths reach all of the output, all weights
};

template <class T>
struct PlannedFullyConnectedProduct : FullyConnectedProduct<T> {
  FullyConnectedPlan<T> plan;
};

template <class T>
struct PlannedFullyConnectedProductBackward : FullyConnectedProductBackward<T> {
  FullyConnectedPlan<T> plan;
};

template <class T>
struct PlannedFullyConnectedProductDoubleBackward : FullyConnectedProductDoubleBackward<T> {
  FullyConnectedPlan<T> plan;
};

constexpr int64_t kMixedRows = 16;  // rows whose matrices are computed together, at most

EQUIGEO_DECLARE_KERNELS(PlannedFullyConnectedProduct, fully_connected_product_rows);
EQUIGEO_DECLARE_KERNELS(
    PlannedFullyConnectedProductBackward, fully_connected_product_backward_rows);
EQUIGEO_DECLARE_KERNELS(
    PlannedFullyConnectedProductDoubleBackward, fully_connected_product_double_backward_rows);

}  // namespace equigeo
