// A function on the sphere, from coefficients to a point and back, by factors along meridians and
// parallels.
#pragma once

#include "args/grid_product.h"
#include "math/host_device.h"

namespace equigeo {

namespace {

template <class T>
EQUIGEO_HOST_DEVICE int64_t orders_of(const Expansion<T>& function) {
  return 2 * function.lmax + 1;
}

template <class T>
EQUIGEO_HOST_DEVICE int64_t coefficients_of(const Expansion<T>& function) {
  return (function.lmax + 1) * (function.lmax + 1);
}

template <class T>
EQUIGEO_HOST_DEVICE const T* meridian_of(
    const Expansion<T>& function, int64_t latitudes, int64_t summand, int64_t latitude) {
  const int64_t s = function.summands == 1 ? 0 : summand;
  return function.legendre + s * coefficients_of(function) * latitudes + latitude;
}

template <class T>
EQUIGEO_HOST_DEVICE const T* parallels_of(
    const Expansion<T>& function, int64_t longitudes, int64_t summand) {
  const int64_t s = function.summands == 1 ? 0 : summand;
  return function.trig + s * orders_of(function) * longitudes;
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
  for (int64_t m = 0; m < orders_of(function); ++m) {
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
