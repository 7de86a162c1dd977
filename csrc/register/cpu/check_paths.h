// Checks of the values of a path table, which the host can read on the CPU.
#pragma once

#include <torch/csrc/stable/library.h>

#include "math/path_table.h"

namespace equigeo {

// Whether the coefficients of a path exist, and are of components that exist.
template <class T>
void check_coefficients(const PathTable<T>& table, int64_t p) {
  const Path& path = table.path[p];
  STD_TORCH_CHECK(
      0 <= path.first && path.first <= path.last && path.last <= table.coefficients, "path ", p,
      " has coefficients that do not exist");
  for (int64_t n = path.first; n < path.last; ++n) {
    STD_TORCH_CHECK(
        couples(path, table.entry[n]), "path ", p,
        " has a coefficient of a component that does not exist");
  }
}

// What all products but channelwise ones want of a path.
template <class T>
void check_path(const PathTable<T>& table, int64_t p) {
  constexpr int64_t kMostComponents = 1 << 10;  // so that products of them are 32-bit numbers
  const Path& path = table.path[p];
  STD_TORCH_CHECK(stays_inside(table, path), "path ", p, " leaves its rows");
  STD_TORCH_CHECK(
      (path.weight >= 0) == table.weighted, "path ", p, " must have weights as all paths, or none");
  STD_TORCH_CHECK(
      path.x.d < kMostComponents && path.y.d < kMostComponents && path.out.d < kMostComponents,
      "path ", p, " has too many components");
  check_coefficients(table, p);
}

template <class T>
void check_channelwise_path(const PathTable<T>& table, int64_t p) {
  const Path& path = table.path[p];
  STD_TORCH_CHECK(has_kernel(path), "path ", p, ": first inputs have 1 to 13 components");
  STD_TORCH_CHECK(
      stays_inside(table, path) && has_channelwise_weights(table, path), "path ", p,
      " leaves its rows");
  STD_TORCH_CHECK(
      has_layout(table, path), "path ", p, ": all segments must be blocks of the layout ",
      table.ir_mul ? "ir_mul" : "mul_ir");
  STD_TORCH_CHECK(
      path.out.mul == path.x.mul, "path ", p, " must have as many copies in the output, got ",
      path.out.mul, ", as in the first input, ", path.x.mul);
  check_coefficients(table, p);
}

}  // namespace equigeo
