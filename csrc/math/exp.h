// The exponential of numbers that are not positive, as a softmax needs it.
//
// The same arithmetic everywhere, without branches, for one number or a pack of them: the argument
// is split into n log 2 + r with |r| <= log(2) / 2, exp(r) is a Taylor polynomial whose
// first neglected term lies below half a unit in the last place, and 2^n is set by its bits.
#pragma once

#include "math/host_device.h"

namespace equigeo {
namespace {

template <class T>
struct ExpConstants;

template <>
struct ExpConstants<float> {
  static constexpr int kMantissa = 23, kBias = 127, kDegree = 7;
  static constexpr float kLowest = -87.33654f;  // exp(kLowest) is the smallest normal number
  static constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  static constexpr float kLog2High = 0.693359375f, kLog2Low = -2.12194440e-4f;
};

template <>
struct ExpConstants<double> {
  static constexpr int kMantissa = 52, kBias = 1023, kDegree = 13;
  static constexpr double kLowest = -708.3964185322641;
  static constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52
  static constexpr double kLog2High = 6.93145751953125e-1, kLog2Low = 1.42860682030941723212e-6;
};

template <class Pack>
EQUIGEO_HOST_DEVICE Pack taylor_exp(Pack r) {
  using T = typename Lanes<Pack>::Scalar;
  constexpr double kInverseFactorial[] = {
      1.0,
      1.0,
      1.0 / 2,
      1.0 / 6,
      1.0 / 24,
      1.0 / 120,
      1.0 / 720,
      1.0 / 5040,
      1.0 / 40320,
      1.0 / 362880,
      1.0 / 3628800,
      1.0 / 39916800,
      1.0 / 479001600,
      1.0 / 6227020800};
  Pack sum = Pack{} + static_cast<T>(kInverseFactorial[ExpConstants<T>::kDegree]);
  EQUIGEO_UNROLL
  for (int k = ExpConstants<T>::kDegree - 1; k >= 0; --k) {
    sum = sum * r + static_cast<T>(kInverseFactorial[k]);
  }
  return sum;
}

// exp(x) for x <= 0 to within two units in the last place. Zero where the result would be
// subnormal; NaN for NaN.
template <class Pack>
EQUIGEO_HOST_DEVICE Pack exp_of_nonpositive(Pack x) {
  using T = typename Lanes<Pack>::Scalar;
  using Constants = ExpConstants<T>;
  const Pack zero = {};
  const Pack lowest = zero + Constants::kLowest;
  const Pack clamped = x < lowest ? lowest : x;
  const Pack shifted = clamped * static_cast<T>(1.4426950408889634) + Constants::kRound;
  const Pack n = shifted - Constants::kRound;
  const Pack r = (clamped - n * Constants::kLog2High) - n * Constants::kLog2Low;
  typename Lanes<Pack>::Bits bits;
  __builtin_memcpy(&bits, &shifted, sizeof(Pack));
  bits = (bits + Constants::kBias) << Constants::kMantissa;  // the low bits of shifted hold n
  Pack power;
  __builtin_memcpy(&power, &bits, sizeof(Pack));
  return x < lowest ? zero : taylor_exp(r) * power;
}

}  // namespace
}  // namespace equigeo
