// Torques about the axes of the frame of an edge.
#pragma once

#include "math/host_device.h"
#include "math/square_root.h"

namespace equigeo {
namespace {

// Of the generators of degree l, between orders m and m + 1.
template <class T>
EQUIGEO_HOST_DEVICE T torque_factor(int64_t l, int64_t m) {
  const double square = static_cast<double>((l * (l + 1) - m * (m + 1)) * (m == 0 ? 2 : 1));
  return static_cast<T>(-0.5 * square_root(square));
}

template <class Pack>
struct TorqueSums {
  Pack x, z;
};

// Adds wide . G narrow about x and z, of one copy of degree l, or of a pack of them. Component m of
// either is wide(m), up to order top + 1, and narrow(m), up to `top`; factors are those of l.
template <class Pack, class T, class Wide, class Narrow>
EQUIGEO_HOST_DEVICE void add_torque(
    const T* factors,
    int64_t l,
    int64_t top,
    const Wide& wide,
    const Narrow& narrow,
    TorqueSums<Pack>& sums) {
  Pack plus = narrow(0), minus = {};  // of order m
  for (int64_t m = 0; m < l && m <= top; ++m) {
    const int64_t next = m + 1;
    const Pack up = wide(next), down = wide(-next);
    Pack x = -(up * plus), z = down * plus;
    if (m > 0) {
      x -= down * minus;
      z -= up * minus;
    }
    if (next <= top) {
      const Pack left = wide(m);
      plus = narrow(next);
      minus = narrow(-next);
      x += left * plus;
      z -= left * minus;
      if (m > 0) {
        const Pack other = wide(-m);
        x += other * minus;
        z += other * plus;
      }
    }
    sums.x += factors[m] * x;
    sums.z += factors[m] * z;
  }
}

}  // namespace
}  // namespace equigeo
