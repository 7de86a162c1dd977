// The table of a channelwise product in the form of the kernels, which keep rows in a layout of
// their own: components outside, multiplicities inside and padded to whole registers.
#pragma once

#include "args/path_table.h"

namespace equigeo {

// A segment of a row of a tensor, and where its first number is in the padded row.
struct PaddedSegment {
  int64_t offset, mul, d, padded;
};

// Where the segments of a path are in padded rows, and its matrix among those of all paths.
struct PathLayout {
  int64_t x, out, matrix;
  bool first_into_output, last_into_output;  // of the paths that add to its output
};

template <class T>
struct ChannelwisePlan : PathTable<T> {
  const PathLayout* layout;      // of each path
  const PaddedSegment* segment;  // of the first input
  int64_t segments;
  const Entry* entry_by_second;  // `entry`, in each path by component of the second input
  const T* value_by_second;
  int64_t padded_x, padded_out;  // elements of padded rows
  int64_t matrices;              // numbers in the matrices of all paths
  int64_t largest_matrix, largest_output, largest_x;
  bool covers, covers_x, covers_weight;  // whether the paths reach all of a row
};

}  // namespace equigeo
