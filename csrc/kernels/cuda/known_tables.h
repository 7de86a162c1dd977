// Path tables of models that have kernels of their own, in which all offsets are constants.
#pragma once

#include "math/host_device.h"

namespace equigeo {

// A path couples degrees l1, of segment l1 of x, and l2 into l3, with so many coefficients.
struct KnownPath {
  int l1, l2, l3, terms;

  EQUIGEO_HOST_DEVICE constexpr int d1() const { return 2 * l1 + 1; }
  EQUIGEO_HOST_DEVICE constexpr int d2() const { return 2 * l2 + 1; }
  EQUIGEO_HOST_DEVICE constexpr int d3() const { return 2 * l3 + 1; }
  EQUIGEO_HOST_DEVICE constexpr int before_y() const { return l2 * l2; }

  // Whether components of the three couple. They are those of real harmonics, by order from -l to
  // l, where orders below zero are sines.
  EQUIGEO_HOST_DEVICE constexpr bool couples(int i, int j, int k) const {
    const int m1 = i - l1, m2 = j - l2, m3 = k - l3;
    const int a = m1 < 0 ? -m1 : m1, b = m2 < 0 ? -m2 : m2, c = m3 < 0 ? -m3 : m3;
    const bool even = ((m1 < 0) + (m2 < 0) + (m3 < 0)) % 2 == 0;
    // The coefficient of degrees 2, 3, 3 and orders 0, 2, 2 is zero.
    const bool zero = l1 == 2 && l2 == 3 && l3 == 3 && a == 0 && b == 2;
    return even && !zero && (a + b == c || a + c == b || b + c == a);
  }
};

// Paths in the order of the output and of their weights. Segments of x, of the output and of
// weights lie side by side, with `mul` channels each. The second input has one copy of each degree.
// Coefficients are listed by i, j and k.
struct KnownTable {
  int mul, second;  // components of the second input
  int segments;     // of x
  int paths;
  KnownPath path[24];

  // Components before a segment of x; of all segments, those of x.
  EQUIGEO_HOST_DEVICE constexpr int before_x(int segment) const { return segment * segment; }
  EQUIGEO_HOST_DEVICE constexpr int before_out(int p) const {
    int sum = 0;
    for (int n = 0; n < p; ++n) {
      sum += path[n].d3();
    }
    return sum;
  }
  // Numbers of the matrices of an edge before that of a path. Each is dense, and begins a word of
  // 16 bytes.
  EQUIGEO_HOST_DEVICE constexpr int before_matrix(int p) const {
    int sum = 0;
    for (int n = 0; n < p; ++n) {
      sum += (path[n].d1() * path[n].d3() + 3) / 4 * 4;
    }
    return sum;
  }
  // Coefficients before those of a path, which begin a word of 16 bytes.
  EQUIGEO_HOST_DEVICE constexpr int before_terms(int p) const {
    int sum = 0;
    for (int n = 0; n < p; ++n) {
      sum += (path[n].terms + 3) / 4 * 4;
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

constexpr KnownPath with_terms(int l1, int l2, int l3) {
  KnownPath path{l1, l2, l3, 0};
  for (int n = 0; n < path.d1() * path.d2() * path.d3(); ++n) {
    path.terms += path.couples(n / path.d3() / path.d2(), n / path.d3() % path.d2(), n % path.d3());
  }
  return path;
}

// All couplings of `mul` channels of degrees up to lmax1, each once, with harmonics up to lmax2
// into degrees up to lmax3, where parities are those of harmonics.
constexpr KnownTable coupled(int mul, int lmax1, int lmax2, int lmax3) {
  KnownTable table{mul, (lmax2 + 1) * (lmax2 + 1), lmax1 + 1, 0, {}};
  for (int l3 = 0; l3 <= lmax3; ++l3) {
    for (int l1 = 0; l1 <= lmax1; ++l1) {
      for (int l2 = 0; l2 <= lmax2; ++l2) {
        if (l1 <= l2 + l3 && l2 <= l1 + l3 && l3 <= l1 + l2 && (l1 + l2 + l3) % 2 == 0) {
          table.path[table.paths++] = with_terms(l1, l2, l3);
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
