// Checks of the values of a path table, which the host can read on the CPU.
#pragma once

#include "math/path_table.h"
#include "register/check.h"

namespace equigeo {

// Whether the components of a path are few enough for 32-bit products of them, and its coefficients
// exist, are no other path's and are of components that exist.
template <class T>
void check_coefficients(const PathTable<T>& table, int64_t p) {
  constexpr int64_t kMostOfIrrep = 1 << 10;
  const Path& path = table.path[p];
  EQUIGEO_CHECK(
      path.x.d < kMostOfIrrep && path.y.d < kMostOfIrrep && path.out.d < kMostOfIrrep, "path ", p,
      " has too many components");
  EQUIGEO_CHECK(
      0 <= path.first && path.first <= path.last && path.last <= table.coefficients, "path ", p,
      " has coefficients that do not exist");
  // Planners sort them in each path.
  EQUIGEO_CHECK(
      p == 0 || table.path[p - 1].last <= path.first, "path ", p,
      " must have coefficients behind those of the path before it");
  for (int64_t n = path.first; n < path.last; ++n) {
    EQUIGEO_CHECK(
        couples(path, table.entry[n]), "path ", p,
        " has a coefficient of a component that does not exist");
  }
}

// What all products but channelwise ones want of a path.
template <class T>
void check_path(const PathTable<T>& table, int64_t p) {
  const Path& path = table.path[p];
  EQUIGEO_CHECK(stays_inside(table, path), "path ", p, " leaves its rows");
  EQUIGEO_CHECK(
      (path.weight >= 0) == table.weighted, "path ", p, " must have weights as all paths, or none");
  check_coefficients(table, p);
}

template <class T>
void check_channelwise_path(const PathTable<T>& table, int64_t p) {
  const Path& path = table.path[p];
  EQUIGEO_CHECK(has_kernel(path), "path ", p, ": first inputs have 1 to 13 components");
  EQUIGEO_CHECK(
      stays_inside(table, path) && has_channelwise_weights(table, path), "path ", p,
      " leaves its rows");
  EQUIGEO_CHECK(
      has_layout(table, path), "path ", p, ": all segments must be blocks of the layout ",
      table.ir_mul ? "ir_mul" : "mul_ir");
  EQUIGEO_CHECK(
      path.out.mul == path.x.mul, "path ", p, " must have as many copies in the output, got ",
      path.out.mul, ", as in the first input, ", path.x.mul);
  check_coefficients(table, p);
}

}  // namespace equigeo
