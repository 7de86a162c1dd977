// The exponential against that of the C++ library in long double.
#include "math/exp.h"

#include "check.h"
#include "kernels/cpu/pack.h"

namespace equigeo {
namespace {

template <class T>
double worst_error(double offset) {
  constexpr int kCount = 4001;
  const double lowest = ExpConstants<T>::kLowest;
  double worst = 0;
  for (int i = 0; i < kCount; ++i) {
    const T x = static_cast<T>(lowest * i / (kCount - 1));
    const long double want = std::exp(static_cast<long double>(x) + offset);
    worst = std::max(worst, static_cast<double>(std::abs(exp_of_nonpositive(x) - want) / want));
  }
  return worst;
}

const bool values = check::add_for_floats("exp of numbers down to the smallest", [](auto zero) {
  using T = decltype(zero);
  check::near(worst_error<T>(0), 0, 2 * check::epsilon<T>);
});

const bool control = check::add_for_floats("exp: an error of four units is seen", [](auto zero) {
  using T = decltype(zero);
  check::holds(
      check::fails(
          [] { check::near(worst_error<T>(4 * check::epsilon<T>), 0, 2 * check::epsilon<T>); }),
      "another function is near");
});

const bool limits = check::add_for_floats("exp of zero, of what underflows and of NaN", [](auto z) {
  using T = decltype(z);
  check::holds(exp_of_nonpositive(T(0)) == 1, "exp(0) is one");
  check::holds(exp_of_nonpositive(T(2) * ExpConstants<T>::kLowest) == 0, "underflow is zero");
  check::holds(exp_of_nonpositive(-std::numeric_limits<T>::infinity()) == 0, "so is -infinity");
  const T nan = exp_of_nonpositive(std::numeric_limits<T>::quiet_NaN());
  check::holds(nan != nan, "NaN stays");
});

const bool packs = check::add_for_floats("exp of a register is that of its lanes", [](auto zero) {
  using T = decltype(zero);
  using Pack = WidePack<T>;
  Pack x = {};
  for (int i = 0; i < kWidth<Pack, T>; ++i) {
    x[i] = T(-0.37) * i;
  }
  const Pack y = exp_of_nonpositive(x);
  for (int i = 0; i < kWidth<Pack, T>; ++i) {
    check::near(y[i], std::exp(static_cast<double>(x[i])), 2 * check::epsilon<T>);
  }
});

}  // namespace
}  // namespace equigeo
