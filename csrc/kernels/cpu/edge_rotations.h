// Rotations of edges onto the y axis in all degrees, for as many edges at a time as a register has
// lanes.
#pragma once

#include "kernels/cpu/pack.h"
#include "math/edge_rotation.h"

namespace equigeo {
namespace {

inline void fill_recurrence(int64_t lmax, Recurrence& recurrence) {
  for (int l = 2; l <= lmax; ++l) {
    for (int m = -l; m <= l; ++m) {
      recurrence.fill(l, m);
    }
  }
}

// Matrices of degrees 0 to lmax, entry by entry with all lanes together; of degree l only rows
// |m| <= top + lmax - l are computed, which is what rows |m| <= top of all degrees need.
template <class T>
inline void edge_matrices(
    const Recurrence& recurrence, int64_t lmax, int64_t top, const T* rotation, T* to) {
  using Pack = WidePack<T>;
  constexpr int64_t kW = kWidth<Pack, T>;
  for (int n = 0; n < 9 && lmax > 0; ++n) {
    Memory<Pack, T>::store(to + (1 + n) * kW, Memory<Pack, T>::load(rotation + n * kW));
  }
  Memory<Pack, T>::store(to, Pack{} + T(1));
  for (int64_t l = 2; l <= lmax; ++l) {
    const T* below = to + entries_below(l - 1) * kW;
    T* here = to + entries_below(l) * kW;
    const int64_t most = last_row(l, lmax, top);
    for (int64_t m = -most; m <= most; ++m) {
      turned_row<Pack>(
          recurrence.row[l][l + m], recurrence.column[l], l, rotation, below,
          here + (l + m) * (2 * l + 1) * kW);
    }
  }
}

}  // namespace
}  // namespace equigeo
