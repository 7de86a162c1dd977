#pragma once

#include "kernels/cpu/isa.h"
#include "math/grid_product.h"

namespace equigeo {

// An expansion whose tables are reduced to one of every two latitudes and one of every two or four
// longitudes, which mirror images share.
template <class T>
struct FoldedExpansion {
  const Sum<T>* meridians;  // (orders, 2): over coefficients, for each parity, by pair of latitudes
  const Sum<T>* parallels;  // (images): over orders, for each part, by orbit of longitudes
  const Sum<T>* analysis;   // (images): over orbits, for each part, by ...
  const int64_t* const* order;  // ... these orders
  int64_t orders, coefficients;
};

template <class T>
struct FoldedProduct {
  const FoldedExpansion<T>* first;  // by summand
  const FoldedExpansion<T>* second;
  const FoldedExpansion<T>* third;
  int64_t firsts, seconds, thirds, summands;
  int64_t samples, pairs, orbits, images;  // pairs of latitudes; images in an orbit: 2 or 4
  const T* x;
  const T* y;
  T* out;
};

// In a chunk, a multiple of every register; fewer are done before another thread is awake.
constexpr int64_t kLeastSamples = 64;

EQUIGEO_DECLARE_KERNELS(FoldedProduct, grid_product_rows);

}  // namespace equigeo
