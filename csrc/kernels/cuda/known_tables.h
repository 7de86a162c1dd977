// Path tables of models that have kernels of their own, in which all offsets are constants.
#pragma once

#include "math/host_device.h"

namespace equigeo {

// A path: its segment of x, and its components of the output.
struct KnownPath {
  int x, d3;
};

// Paths in the order of the output and of their weights. Segments of x, of the output and of
// weights lie side by side, with `mul` channels each. The second input has `second` components, one
// copy of each, wherever paths have them.
struct KnownTable {
  int mul, second;
  int segments, d1[4];
  int paths;
  KnownPath path[24];

  // Components before a segment of x; of all segments, those of x.
  EQUIGEO_HOST_DEVICE constexpr int before_x(int segment) const {
    int sum = 0;
    for (int n = 0; n < segment; ++n) {
      sum += d1[n];
    }
    return sum;
  }
  EQUIGEO_HOST_DEVICE constexpr int before_out(int p) const {
    int sum = 0;
    for (int n = 0; n < p; ++n) {
      sum += path[n].d3;
    }
    return sum;
  }
  // Numbers of the matrices of an edge before that of a path. Each is dense, and begins a word of
  // 16 bytes.
  EQUIGEO_HOST_DEVICE constexpr int before_matrix(int p) const {
    int sum = 0;
    for (int n = 0; n < p; ++n) {
      sum += (d1[path[n].x] * path[n].d3 + 3) / 4 * 4;
    }
    return sum;
  }

  // Whether a table may be this one, as far as the host knows; kernels know the rest.
  template <class Table>
  bool has_sizes_of(const Table& table) const {
    return table.count == paths && table.dim_x == mul * before_x(segments) &&
           table.dim_y == second && table.dim_out == mul * before_out(paths) &&
           table.dim_weight == mul * paths;
  }
};

namespace {

// All couplings of `mul` channels of degrees up to lmax1, each once, with harmonics up to lmax2
// into degrees up to lmax3, where parities are those of harmonics.
constexpr KnownTable coupled(int mul, int lmax1, int lmax2, int lmax3) {
  KnownTable table{};
  table.mul = mul;
  table.second = (lmax2 + 1) * (lmax2 + 1);
  for (int l1 = 0; l1 <= lmax1; ++l1) {
    table.d1[table.segments++] = 2 * l1 + 1;
  }
  for (int l3 = 0; l3 <= lmax3; ++l3) {
    for (int l1 = 0; l1 <= lmax1; ++l1) {
      for (int l2 = 0; l2 <= lmax2; ++l2) {
        if (l1 <= l2 + l3 && l2 <= l1 + l3 && l3 <= l1 + l2 && (l1 + l2 + l3) % 2 == 0) {
          table.path[table.paths++] = {l1, 2 * l3 + 1};
        }
      }
    }
  }
  return table;
}

// Convolutions of MACE. Every model begins with the small one.
constexpr KnownTable kMaceSmall = coupled(128, 0, 3, 3);
constexpr KnownTable kMaceMedium = coupled(128, 1, 3, 3);
constexpr KnownTable kMaceLarge = coupled(128, 2, 3, 3);

constexpr const KnownTable* kKnownTables[] = {&kMaceSmall, &kMaceMedium, &kMaceLarge};
constexpr int kNumKnown = sizeof(kKnownTables) / sizeof(kKnownTables[0]);

// The table that one of these sizes may be, or null.
template <class Table>
const KnownTable* known_table(const Table& table) {
  for (const KnownTable* known : kKnownTables) {
    if (known->has_sizes_of(table)) {
      return known;
    }
  }
  return nullptr;
}

}  // namespace
}  // namespace equigeo
