// A path of a product whose channels meet in pairs; a row of the op's argument `paths`.
#pragma once

#include <stdint.h>

namespace equigeo {

// Offsets count elements of a row.
struct Connection {
  int64_t x, mul, d1;    // first input: offset, multiplicity, components
  int64_t y, mul2, d2;   // second input
  int64_t out, mul3, d3;  // output
  int64_t weight;        // offset of the weights, or -1
  int64_t first, last;   // its coefficients
};

// Whether copies meet one by one; else each meets all of the other input.
inline
#ifdef __CUDACC__
    __host__ __device__
#endif
    bool is_matched(const Connection& path) {
  return path.mul3 != path.mul * path.mul2;
}

}  // namespace equigeo
