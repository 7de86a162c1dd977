// Whether the numbers of a path table stay inside the rows that they speak of.
#pragma once

#include "math/host_device.h"
#include "ops/channelwise_product.h"

namespace equigeo {
namespace {

// Whether a block of rows of the given sizes lies inside a row, without overflow.
EQUIGEO_HOST_DEVICE bool inside(int64_t offset, int64_t mul, int64_t d, int64_t dim) {
  return offset >= 0 && mul > 0 && d > 0 && d <= dim && mul <= dim / d && offset <= dim - mul * d;
}

template <class T>
EQUIGEO_HOST_DEVICE bool stays_inside(const Paths<T>& paths, const Path& path) {
  return inside(path.x, path.mul, path.d1, paths.dim_x) &&
         inside(path.y, path.mul2, path.d2, paths.dim_y) &&
         inside(path.out, path.mul, path.d3, paths.dim_out) &&
         (path.weight < 0 || inside(path.weight, path.mul, path.mul2, paths.dim_weight));
}

// Whether kernels, which keep the components of a first input in registers, have a body for these.
EQUIGEO_HOST_DEVICE bool has_body(const Path& path) { return path.d1 % 2 == 1 && path.d1 <= 13; }

EQUIGEO_HOST_DEVICE bool couples(const Path& path, const Entry& entry) {
  return 0 <= entry.i && entry.i < path.d1 && 0 <= entry.j && entry.j < path.d2 && 0 <= entry.k &&
         entry.k < path.d3;
}

}  // namespace
}  // namespace equigeo
