// A function on the sphere, from coefficients to a point and back, by factors along meridians and
// parallels.
#pragma once

#include "math/host_device.h"

namespace equigeo {

// Factors along meridians, (summands, (lmax + 1)^2, latitudes), and along parallels, (summands,
// 2 lmax + 1, longitudes). The only summand, where there is one, stands for all.
template <class T>
struct Expansion {
  const T* legendre;
  const T* trig;
  int64_t summands, lmax;

  EQUIGEO_HOST_DEVICE int64_t orders() const { return 2 * lmax + 1; }
  EQUIGEO_HOST_DEVICE int64_t coefficients() const { return (lmax + 1) * (lmax + 1); }
};

namespace {

template <class T>
EQUIGEO_HOST_DEVICE const T* meridian_of(
    const Expansion<T>& function, int64_t latitudes, int64_t summand, int64_t latitude) {
  const int64_t s = function.summands == 1 ? 0 : summand;
  return function.legendre + s * function.coefficients() * latitudes + latitude;
}

template <class T>
EQUIGEO_HOST_DEVICE const T* parallels_of(
    const Expansion<T>& function, int64_t longitudes, int64_t summand) {
  const int64_t s = function.summands == 1 ? 0 : summand;
  return function.trig + s * function.orders() * longitudes;
}

// The factor of the m-th order, -lmax first, that all points of a parallel share.
template <class T>
EQUIGEO_HOST_DEVICE T along_meridian(
    const Expansion<T>& function,
    int64_t latitudes,
    int64_t summand,
    int64_t m,
    int64_t latitude,
    const T* coefficients) {
  const T* legendre = meridian_of(function, latitudes, summand, latitude);
  const int64_t order = m - function.lmax;
  T sum = 0;
  for (int64_t l = order < 0 ? -order : order; l <= function.lmax; ++l) {
    const int64_t c = l * l + l + order;
    sum += legendre[c * latitudes] * coefficients[c];
  }
  return sum;
}

// The value at a longitude from those factors.
template <class T>
EQUIGEO_HOST_DEVICE T along_parallel(
    const Expansion<T>& function,
    int64_t longitudes,
    int64_t summand,
    int64_t longitude,
    const T* orders) {
  const T* trig = parallels_of(function, longitudes, summand) + longitude;
  T sum = 0;
  for (int64_t m = 0; m < function.orders(); ++m) {
    sum += trig[m * longitudes] * orders[m];
  }
  return sum;
}

// The transpose of along_parallel: the m-th order in values along a parallel.
template <class T>
EQUIGEO_HOST_DEVICE T analyze_parallel(
    const Expansion<T>& function, int64_t longitudes, int64_t summand, int64_t m, const T* values) {
  const T* trig = parallels_of(function, longitudes, summand) + m * longitudes;
  T sum = 0;
  for (int64_t j = 0; j < longitudes; ++j) {
    sum += trig[j] * values[j];
  }
  return sum;
}

// The transpose of along_meridian, added to the coefficients of that order.
template <class T>
EQUIGEO_HOST_DEVICE void analyze_meridian(
    const Expansion<T>& function,
    int64_t latitudes,
    int64_t summand,
    int64_t m,
    int64_t latitude,
    T part,
    T* coefficients) {
  const T* legendre = meridian_of(function, latitudes, summand, latitude);
  const int64_t order = m - function.lmax;
  for (int64_t l = order < 0 ? -order : order; l <= function.lmax; ++l) {
    const int64_t c = l * l + l + order;
    coefficients[c] += legendre[c * latitudes] * part;
  }
}

}  // namespace
}  // namespace equigeo
