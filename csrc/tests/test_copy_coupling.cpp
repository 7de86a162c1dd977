// Products of the components of two copies, their tangents and gradients, against plain loops.
#include "check.h"
#include "math/copy_coupling.h"

namespace equigeo {
namespace {

constexpr int64_t kX = 3, kY = 5, kXStep = 2, kYStep = 1;

template <class T>
using One = PackGroup<T, 1, T>;

const bool tangents = check::add_for_floats("products of two copies along tangents", [](auto zero) {
  using T = decltype(zero);
  const std::vector<T> x = check::normal<T>(kX * kXStep, 1), a = check::normal<T>(kX * kXStep, 2);
  const std::vector<T> y = check::normal<T>(kY * kYStep, 3), b = check::normal<T>(kY * kYStep, 4);
  for (const bool along_x : {false, true}) {
    for (const bool along_y : {false, true}) {
      if (!along_x && !along_y) {
        continue;
      }
      std::vector<T> products(kX * kY);
      product_tangents<One<T>>(
          x.data(), along_x ? a.data() : nullptr, kX, kXStep, y.data(),
          along_y ? b.data() : nullptr, kY, kYStep, products.data());
      std::vector<double> want;
      for (int64_t i = 0; i < kX; ++i) {
        for (int64_t j = 0; j < kY; ++j) {
          const double moved_x = along_x ? double(a[i * kXStep]) * y[j * kYStep] : 0;
          const double moved_y = along_y ? double(x[i * kXStep]) * b[j * kYStep] : 0;
          want.push_back(moved_x + moved_y);
        }
      }
      check::all_near(products, want, 10 * check::epsilon<T>);
    }
  }
});

const bool gradients = check::add_for_floats("gradients of products of two copies", [](auto zero) {
  using T = decltype(zero);
  const std::vector<T> x = check::normal<T>(kX * kXStep, 5), y = check::normal<T>(kY * kYStep, 6);
  const std::vector<T> slopes = check::normal<T>(kX * kY, 7);
  // Added to what is there; what is not wanted stays, and needs none of what it would be made of.
  const std::vector<T> x_before = check::normal<T>(kX * kXStep, 8);
  const std::vector<T> y_before = check::normal<T>(kY * kYStep, 9);
  std::vector<double> want_x(x_before.begin(), x_before.end());
  std::vector<double> want_y(y_before.begin(), y_before.end());
  for (int64_t i = 0; i < kX; ++i) {
    for (int64_t j = 0; j < kY; ++j) {
      want_x[i * kXStep] += double(slopes[i * kY + j]) * y[j * kYStep];
      want_y[j * kYStep] += double(slopes[i * kY + j]) * x[i * kXStep];
    }
  }
  const double tolerance = 20 * check::epsilon<T>;
  const T* nothing = nullptr;
  T* unwanted = nullptr;
  std::vector<T> to_x = x_before, to_y = y_before;
  product_gradients<One<T>>(
      slopes.data(), x.data(), kX, kXStep, y.data(), kY, kYStep, to_x.data(), to_y.data());
  check::all_near(to_x, want_x, tolerance);
  check::all_near(to_y, want_y, tolerance);
  to_x = x_before;
  product_gradients<One<T>>(
      slopes.data(), nothing, kX, kXStep, y.data(), kY, kYStep, to_x.data(), unwanted);
  check::all_near(to_x, want_x, tolerance);
  to_y = y_before;
  product_gradients<One<T>>(
      slopes.data(), x.data(), kX, kXStep, nothing, kY, kYStep, unwanted, to_y.data());
  check::all_near(to_y, want_y, tolerance);
});

}  // namespace
}  // namespace equigeo
