// The table of a product of rows, as it is given. equigeo/ops/path_table.py defines segment, path
// and coupling.
#pragma once

#include <stdint.h>

namespace equigeo {

// Copies of an irrep inside a row: copy u has its component i at `offset + u * copy + i * step`.
struct Segment {
  int64_t offset, mul, d, copy, step;
};

// A segment of each input and where they lead: a row of the op's argument `paths`.
struct Path {
  Segment x, y, out;
  int64_t weight;       // offset of the weights, or -1
  int64_t first, last;  // its coefficients
};

// A coefficient couples component i of x with j of y into k of the output.
struct Entry {
  int64_t i, j, k;
};

struct LoadedKernels;

template <class T>
struct PathTable {
  const Path* path;
  int64_t count;
  const Entry* entry;
  const T* value;
  int64_t coefficients;
  int64_t dim_x, dim_y, dim_weight, dim_out;
  bool weighted;  // all paths have weights, or none
  bool ir_mul;    // of ops whose segments all have one layout: components outside
  void* kept;     // memory of the device for what later calls with this table need too, or null
  const LoadedKernels* loaded;  // for tables of these sizes on the device, or null
};

}  // namespace equigeo
