// Path tables of models, whose kernels are compiled with the library.
#pragma once

#include <type_traits>

#include "kernels/cuda/known_tables.h"
#include "math/dual.h"

namespace equigeo {
namespace {

// Convolutions of MACE. Every model begins with the small one, and so does SevenNet-l3i5.
constexpr KnownTable kMaceSmall = natural({128}, 3, 3, true);
constexpr KnownTable kMaceMedium = natural({128, 128}, 3, 3, true);
constexpr KnownTable kMaceLarge = natural({128, 128, 128}, 3, 3, true);

// Convolutions of NequIP with 32 channels of both parities, up to degree 1.
constexpr KnownTable kNequip1 = both<2>(32);

#ifndef EQUIGEO_SIMULATOR
// The same up to degree 2; convolutions between the first and the last one of SevenNet-0 and of
// SevenNet-l3i5, and of Nequix, which are also those of NequIP-OAM-L.
constexpr KnownTable kNequip2 = both<3>(32);
constexpr KnownTable kSevenNet0 = even({128, 64, 32}, 2, 2);
constexpr KnownTable kSevenNet3 = even({128, 64, 32, 32}, 3, 3);
constexpr KnownTable kNequix = natural({128, 64, 32, 32}, 3, 3);

constexpr const KnownTable* kKnownTables[] = {&kMaceSmall, &kMaceMedium, &kMaceLarge, &kNequip1,
                                              &kNequip2,   &kSevenNet0,  &kSevenNet3, &kNequix};
#else
// Small tables that have all that these have, and more: several strands of a lane and blocks of a
// part, some without channels; lanes without channels; segments in several parts.
constexpr KnownSegment kVectors[] = {{64, 1, 1}, {64, 1, 0}};
constexpr KnownTable kManyScalars = natural({270, 32}, 2, 2);
constexpr KnownTable kOddNumber = even({89, 70}, 1, 1);
constexpr KnownTable kSplit = coupled(kVectors, 1, 1, Parity::kNatural, Parity::kBoth, false, 5);

constexpr const KnownTable* kKnownTables[] = {&kMaceSmall,   &kMaceMedium, &kMaceLarge, &kNequip1,
                                              &kManyScalars, &kOddNumber,  &kSplit};
#endif
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

// Call run(n, zero) with the index of a known table, as a constant, and a zero of the numbers that
// it is for, with tangents or without; false where the table is null.
template <int N = 0, class Run>
bool for_known(const KnownTable* known, bool tangents, const Run& run) {
  if constexpr (N < kNumKnown) {
    if (known != kKnownTables[N]) {
      return for_known<N + 1>(known, tangents, run);
    }
    if (tangents) {
      run(std::integral_constant<int, N>(), Dual<float>{});
    } else {
      run(std::integral_constant<int, N>(), float{});
    }
    return true;
  }
  return false;
}

}  // namespace
}  // namespace equigeo
