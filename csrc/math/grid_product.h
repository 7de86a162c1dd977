// Small sums of packs with constant factors, and changes between values at mirror images and their
// symmetric parts. A pack holds the same number of several samples.
#pragma once

#include "math/host_device.h"

namespace equigeo {

// out_j = sum_e value_ej in_index(e), for columns j.
template <class T>
struct Sum {
  const int64_t* index;
  const T* value;  // (entries, columns)
  int64_t entries, columns;
};

namespace {

// J columns of a sum from `column` on, of inputs with K packs each.
template <class Pack, int J, int K, class T>
EQUIGEO_HOST_DEVICE void sum_columns(
    const Sum<T>& sum, int64_t column, const T* in, Pack (&out)[J][K]) {
  constexpr int64_t kStep = kWidth<Pack, T>;
  EQUIGEO_UNROLL
  for (int j = 0; j < J; ++j) {
    EQUIGEO_UNROLL
    for (int k = 0; k < K; ++k) {
      out[j][k] = Pack{};
    }
  }
  const T* value = sum.value + column;
  for (int64_t e = 0; e < sum.entries; ++e, value += sum.columns) {
    const T* from = in + sum.index[e] * K * kStep;
    Pack packs[K];
    EQUIGEO_UNROLL
    for (int k = 0; k < K; ++k) {
      packs[k] = Memory<Pack, T>::load(from + k * kStep);
    }
    EQUIGEO_UNROLL
    for (int j = 0; j < J; ++j) {
      EQUIGEO_UNROLL
      for (int k = 0; k < K; ++k) {
        out[j][k] += value[j] * packs[k];
      }
    }
  }
}

// The transpose for J columns: out_index(e) += sum_j value_ej in_j.
template <class Pack, int J, class T>
EQUIGEO_HOST_DEVICE void add_columns(
    const Sum<T>& sum, int64_t column, const Pack (&in)[J], T* out) {
  constexpr int64_t kStep = kWidth<Pack, T>;
  const T* value = sum.value + column;
  for (int64_t e = 0; e < sum.entries; ++e, value += sum.columns) {
    T* into = out + sum.index[e] * kStep;
    Pack total = Memory<Pack, T>::load(into);
    EQUIGEO_UNROLL
    for (int j = 0; j < J; ++j) {
      total += value[j] * in[j];
    }
    Memory<Pack, T>::store(into, total);
  }
}

// Values at the F images of a point under commuting reflections, from the parts of a function that
// these keep or change in sign; twice the transform is F times the identity.
template <class Pack, int F>
EQUIGEO_HOST_DEVICE void mix_images(Pack (&parts)[F]) {
  EQUIGEO_UNROLL
  for (int bit = 1; bit < F; bit *= 2) {
    EQUIGEO_UNROLL
    for (int g = 0; g < F; ++g) {
      if ((g & bit) == 0) {
        const Pack sum = parts[g] + parts[g + bit];
        parts[g + bit] = parts[g] - parts[g + bit];
        parts[g] = sum;
      }
    }
  }
}

// Parts of the product of two functions from their parts, for numbers that are `stride` apart by
// part. The sum over images is not divided by F.
template <class Pack, int F, class T>
EQUIGEO_HOST_DEVICE void multiply_parts(
    const T* first, const T* second, int64_t stride, bool add, T* product) {
  Pack a[F], b[F];
  EQUIGEO_UNROLL
  for (int c = 0; c < F; ++c) {
    a[c] = Memory<Pack, T>::load(first + c * stride);
    b[c] = Memory<Pack, T>::load(second + c * stride);
  }
  mix_images(a);
  mix_images(b);
  EQUIGEO_UNROLL
  for (int g = 0; g < F; ++g) {
    a[g] *= b[g];
  }
  mix_images(a);
  EQUIGEO_UNROLL
  for (int c = 0; c < F; ++c) {
    T* into = product + c * stride;
    Memory<Pack, T>::store(into, add ? Memory<Pack, T>::load(into) + a[c] : a[c]);
  }
}

}  // namespace
}  // namespace equigeo
