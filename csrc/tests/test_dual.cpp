// Derivatives of dual numbers against differences.
#include "math/dual.h"

#include "check.h"
#include "math/bfloat16.h"

namespace equigeo {
namespace {

// A polynomial in every operation that dual numbers have.
template <class N>
N polynomial(N x, N y) {
  N sum = x * x * y - 3.0 * (y * x);
  sum += x + number<N>(0.5) * y;
  return sum * (x - y);
}

double slope_at(double x, double y, double along_x, double along_y) {
  const Dual<double> value = polynomial(Dual<double>{x, along_x}, Dual<double>{y, along_y});
  check::near(value.value, polynomial(x, y), 0);
  return value.slope;
}

double difference_at(double x, double y, double along_x, double along_y) {
  const double h = 1e-5;  // central differences are then off by h^2 and by rounding / h: 1e-10
  return (polynomial(x + h * along_x, y + h * along_y) -
          polynomial(x - h * along_x, y - h * along_y)) /
         (2 * h);
}

const bool slopes = check::add("dual numbers have the slopes of differences", [] {
  const std::vector<double> numbers = check::normal<double>(4 * 25, 1);
  for (size_t i = 0; i < numbers.size(); i += 4) {
    const double* n = numbers.data() + i;
    const double want = difference_at(n[0], n[1], n[2], n[3]);
    check::near(slope_at(n[0], n[1], n[2], n[3]), want, 1e-8, 1 + std::abs(want));
  }
});

const bool control = check::add("dual numbers: another direction has another slope", [] {
  check::holds(
      check::fails([] { check::near(slope_at(1, 2, 1, 0), difference_at(1, 2, 0, 1), 1e-8); }),
      "the slopes along x and y are near");
});

const bool last = check::add("dual numbers: the last part of a product is added to a sum", [] {
  const Dual<double> a{1.5, -2}, b{0.5, 3};
  double sum = 1, plain = 1;
  add_last_part(sum, a, b);
  add_last_part(plain, a.value, b.value);
  check::near(sum, 1 + last_part(a * b), 0);
  check::near(plain, 1 + last_part(a.value * b.value), 0);
});

const bool memory = check::add_for_floats("dual numbers lie side by side in memory", [](auto zero) {
  using T = decltype(zero);
  T cells[2] = {};
  Memory<Dual<T>, T>::store(cells, {T(1.5), T(-2)});
  check::holds(cells[0] == T(1.5) && cells[1] == T(-2), "value, then slope");
  const Dual<T> back = Memory<Dual<T>, T>::load(cells);
  check::holds(back.value == cells[0] && back.slope == cells[1], "and back");
});

const bool halves = check::add("bfloat16 rounds to nearest, ties to even", [] {
  for (const float x : check::normal<float>(1001, 2)) {
    check::near(widen(narrow(x)), x, 1.0 / 256, std::abs(x));  // eight bits, half of the last one
    check::holds(widen(narrow(widen(narrow(x)))) == widen(narrow(x)), "what is rounded stays");
  }
  check::holds(widen(narrow(1 + 1.0f / 256)) == 1, "a tie goes to the even number, below");
  check::holds(widen(narrow(1 + 3.0f / 256)) == 1 + 4.0f / 256, "or above");
});

}  // namespace
}  // namespace equigeo
