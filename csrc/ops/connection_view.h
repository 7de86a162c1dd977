// The paths of a product whose channels meet in pairs.
#pragma once

#include "math/host_device.h"
#include "ops/channelwise_product.h"

namespace equigeo {

// A segment of a row: copy u has its component i at `first + u * copy + i * step`.
struct Copies {
  int64_t first, mul, d, copy, step;
};

// A path, which is a row of the op's argument `paths`.
struct Connection {
  Copies x, y, out;
  int64_t weight;       // offset of the weights, or -1
  int64_t first, last;  // its coefficients
};

namespace {

// Whether copies meet one by one; else each meets all of the other input.
EQUIGEO_HOST_DEVICE bool is_matched(const Connection& path) {
  return path.out.mul != path.x.mul * path.y.mul;
}

}  // namespace

// The table as it is given.
template <class T>
struct ConnectionView {
  const Connection* path;
  int64_t count;
  const Entry* entry;
  const T* value;
  int64_t dim_x, dim_y, dim_weight, dim_out;
  bool weighted;  // all paths have weights, or none
};

}  // namespace equigeo
