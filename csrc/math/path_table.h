// Whether the numbers of a path table stay inside the rows that they speak of.
#pragma once

#include "args/path_table.h"
#include "math/host_device.h"

namespace equigeo {
namespace {

// Whether a block of rows of the given sizes lies inside a row, without overflow.
EQUIGEO_HOST_DEVICE bool inside(int64_t offset, int64_t mul, int64_t d, int64_t dim) {
  return offset >= 0 && mul > 0 && d > 0 && d <= dim && mul <= dim / d && offset <= dim - mul * d;
}

// Whether a segment lies inside a row, without overflow.
EQUIGEO_HOST_DEVICE bool inside(const Segment& segment, int64_t dim) {
  if (segment.offset < 0 || segment.offset >= dim || segment.mul < 1 || segment.d < 1 ||
      segment.copy < 1 || segment.step < 1) {
    return false;
  }
  const int64_t left = dim - 1 - segment.offset;
  return segment.d - 1 <= left / segment.step &&
         segment.mul - 1 <= (left - (segment.d - 1) * segment.step) / segment.copy;
}

template <class T>
EQUIGEO_HOST_DEVICE bool stays_inside(const PathTable<T>& table, const Path& path) {
  return inside(path.x, table.dim_x) && inside(path.y, table.dim_y) &&
         inside(path.out, table.dim_out);
}

// Whether copies are side by side without gaps, components outside (`ir_mul`) or inside. One copy,
// or copies of one component, are both.
EQUIGEO_HOST_DEVICE bool is_block(const Segment& segment, bool ir_mul) {
  const bool copies = segment.mul == 1 || segment.copy == (ir_mul ? 1 : segment.d);
  return copies && (segment.d == 1 || segment.step == (ir_mul ? segment.mul : 1));
}

// What channelwise products want of a path: blocks of the layout of the table, and as many copies
// of the output as of the first input, with (mul, mul2) weights where there are any.
template <class T>
EQUIGEO_HOST_DEVICE bool has_layout(const PathTable<T>& table, const Path& path) {
  return is_block(path.x, table.ir_mul) && is_block(path.y, table.ir_mul) &&
         is_block(path.out, table.ir_mul);
}

template <class T>
EQUIGEO_HOST_DEVICE bool has_channelwise_weights(const PathTable<T>& table, const Path& path) {
  return path.weight < 0 || inside(path.weight, path.x.mul, path.y.mul, table.dim_weight);
}

// Whether there is a kernel for the components of the first input, which it keeps in registers.
EQUIGEO_HOST_DEVICE bool has_kernel(const Path& path) {
  return path.x.d % 2 == 1 && path.x.d <= 13;
}

EQUIGEO_HOST_DEVICE bool couples(const Path& path, const Entry& entry) {
  return 0 <= entry.i && entry.i < path.x.d && 0 <= entry.j && entry.j < path.y.d && 0 <= entry.k &&
         entry.k < path.out.d;
}

// Whether copies are coupled one by one (e3nn's uuu); else each is coupled with all of the other
// input (uvuv).
EQUIGEO_HOST_DEVICE bool is_matched(const Path& path) {
  return path.out.mul != path.x.mul * path.y.mul;
}

}  // namespace
}  // namespace equigeo
