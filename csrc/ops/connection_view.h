// The paths of a product whose channels meet in pairs.
#pragma once

#include "math/host_device.h"
#include "ops/channelwise_product.h"

namespace equigeo {

// A path, which is a row of the op's argument `paths`. Offsets count elements of a row.
struct Connection {
  int64_t x, mul, d1;     // first input: offset, multiplicity, components
  int64_t y, mul2, d2;    // second input
  int64_t out, mul3, d3;  // output
  int64_t weight;         // offset of the weights, or -1
  int64_t first, last;    // its coefficients
};

namespace {

// Whether copies meet one by one; else each meets all of the other input.
EQUIGEO_HOST_DEVICE bool is_matched(const Connection& path) {
  return path.mul3 != path.mul * path.mul2;
}

}  // namespace

// The table as it is given, for devices that make no plan.
template <class T>
struct ConnectionView {
  const Connection* path;
  int64_t count;
  const Entry* entry;
  const T* value;
  int64_t dim_x, dim_y, dim_weight, dim_out;
  bool ir_mul;
};

}  // namespace equigeo
