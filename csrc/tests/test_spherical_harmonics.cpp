// Spherical harmonics against closed forms, the addition theorem and differences.
#include "math/spherical_harmonics.h"

#include "check.h"
#include "kernels/cpu/pack.h"

namespace equigeo {
namespace {

constexpr int64_t kMost = 5, kSize = kMost + 1;

// Coefficients of the recursion, as equigeo/tensor_products/sphere/legendre.py has them, of
// harmonics whose mean square on the sphere is one.
template <class T>
struct Coefficients {
  std::vector<T> up, down, start, along, raise;
  std::vector<int32_t> center;

  Coefficients() : up(kSize * kSize), down(up), start(up), along(up), raise(up) {
    double growth = 1;
    for (int64_t m = 0; m < kSize; ++m) {
      growth *= m > 0 ? 1 + 1 / (2.0 * m) : 1;
      center.push_back(static_cast<int32_t>(m * m + m));
      start[m * kSize + m] = static_cast<T>(std::sqrt(growth * (m > 0 ? 2 : 1)));
      for (int64_t l = m; l < kSize; ++l) {
        const double n = std::max<double>(1, l * l - m * m), slope = (2 * l + 1) / (2.0 * l - 1);
        const int64_t at = m * kSize + l;
        up[at] = static_cast<T>(m < l ? std::sqrt((4 * l * l - 1) / n) : 0);
        if (m < l - 1) {
          const double square = (l - 1) * (l - 1) - m * m;
          down[at] = static_cast<T>(std::sqrt((2 * l + 1) / (2.0 * l - 3) * square / n));
        }
        along[at] = static_cast<T>(std::sqrt(std::max(0.0, slope * (l - m) * (l + m))));
        const double raised = std::sqrt(std::max(0.0, slope * (l - m) * (l - m - 1)));
        raise[at] = static_cast<T>(-raised * (m == 0 ? std::sqrt(0.5) : 1));
      }
    }
  }

  template <template <class> class Op>
  Op<T> op(bool normalize) const {
    Op<T> op{};
    op.table = {up.data(), down.data(), start.data(), along.data(), raise.data(), kSize, kMost};
    op.center = center.data();
    op.dim = kSize * kSize;
    op.normalize = normalize;
    return op;
  }
};

template <class T>
std::vector<T> evaluate(const Vector<T>& x, bool normalize) {
  static const Coefficients<T> table;
  std::vector<T> out(kSize * kSize);
  harmonics(table.template op<SphericalHarmonics>(normalize), x, out.data());
  return out;
}

template <class T>
Vector<T> point(unsigned seed) {
  const std::vector<T> x = check::normal<T>(3, seed);
  return {x[0], x[1], x[2]};
}

template <class T>
Vector<double> unit(const Vector<T>& v) {
  const double x = v.x, y = v.y, z = v.z, length = std::sqrt(x * x + y * y + z * z);
  return {x / length, y / length, z / length};
}

// Degrees 0 to 2 in the order of e3nn, whose components are the polynomials of any textbook.
std::vector<double> closed_forms(const Vector<double>& u) {
  const double a = std::sqrt(15.0);
  return {
      1,
      std::sqrt(3.0) * u.x,
      std::sqrt(3.0) * u.y,
      std::sqrt(3.0) * u.z,
      a * u.x * u.z,
      a * u.x * u.y,
      std::sqrt(5.0) * (u.y * u.y - (u.x * u.x + u.z * u.z) / 2),
      a * u.y * u.z,
      a / 2 * (u.z * u.z - u.x * u.x)};
}

const bool closed = check::add_for_floats("harmonics of degrees 0 to 2 in closed form", [](auto z) {
  using T = decltype(z);
  for (unsigned seed = 0; seed < 17; ++seed) {
    const Vector<T> x = point<T>(seed);
    std::vector<T> got = evaluate(x, true);
    got.resize(9);
    check::all_near(got, closed_forms(unit(x)), 20 * check::epsilon<T>);
    check::holds(
        check::fails(
            [&] { check::all_near(got, closed_forms({0.6, 0, 0.8}), 20 * check::epsilon<T>); }),
        "negative control: another point has the same harmonics");
  }
});

const bool addition =
    check::add_for_floats("the squares of a degree add up to 2 l + 1", [](auto z) {
      using T = decltype(z);
      for (unsigned seed = 20; seed < 37; ++seed) {
        const std::vector<T> y = evaluate(point<T>(seed), true);
        for (int64_t l = 0; l < kSize; ++l) {
          double sum = 0;
          for (int64_t k = l * l; k < (l + 1) * (l + 1); ++k) {
            sum += static_cast<double>(y[k]) * y[k];
          }
          // Twice the relative error of a harmonic, which the closed forms above bound by 20.
          check::near(sum, 2.0 * l + 1, 40 * check::epsilon<T>, 2.0 * l + 1);
        }
      }
    });

const bool zero =
    check::add_for_floats("harmonics of the zero vector and of huge ones", [](auto z) {
      using T = decltype(z);
      const std::vector<T> none = evaluate(Vector<T>{}, true);
      check::holds(none[0] == 1 && none[1] == 0 && none[5] == 0, "zero has no direction");
      const T huge = std::numeric_limits<T>::max();
      check::near(evaluate(Vector<T>{0, huge, 0}, true)[2], std::sqrt(3.0), 20 * check::epsilon<T>);
    });

// <grad, Y(x)> in double.
double pairing(const std::vector<double>& grad, Vector<double> x, bool normalize) {
  const std::vector<double> y = evaluate(x, normalize);
  double sum = 0;
  for (size_t k = 0; k < y.size(); ++k) {
    sum += grad[k] * y[k];
  }
  return sum;
}

Vector<double> moved(Vector<double> x, const Vector<double>& along, double h) {
  return {x.x + h * along.x, x.y + h * along.y, x.z + h * along.z};
}

const bool backward =
    check::add_for_floats("gradients of harmonics against differences", [](auto z) {
      using T = decltype(z);
      static const Coefficients<T> table;
      const Vector<double> axes[] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
      for (const bool normalize : {false, true}) {
        const Vector<double> x = {0.3, -0.7, 0.5};
        const std::vector<double> grad = check::normal<double>(kSize * kSize, 40);
        const std::vector<T> given(grad.begin(), grad.end());
        const auto op = table.template op<SphericalHarmonicsBackward>(normalize);
        const Vector<T> at = {static_cast<T>(x.x), static_cast<T>(x.y), static_cast<T>(x.z)};
        const Vector<T> got = harmonics_backward(op, at, given.data());
        std::vector<double> want;
        for (const Vector<double>& axis : axes) {
          want.push_back(
              (pairing(grad, moved(x, axis, 1e-5), normalize) -
               pairing(grad, moved(x, axis, -1e-5), normalize)) /
              2e-5);
        }
        check::all_near(std::vector<T>{got.x, got.y, got.z}, want, 1e-8 + 100 * check::epsilon<T>);
      }
    });

const bool twice = check::add("second derivatives of harmonics against differences", [] {
  static const Coefficients<double> table;
  for (const bool normalize : {false, true}) {
    const Vector<double> x = {0.3, -0.7, 0.5}, along = {-0.2, 0.4, 0.9};
    const std::vector<double> grad = check::normal<double>(kSize * kSize, 41);
    const auto op = table.op<SphericalHarmonicsDoubleBackward>(normalize);
    std::vector<double> slopes(grad.size());
    const Vector<double> got = harmonics_double_backward(op, x, along, grad.data(), slopes.data());
    const auto first = [&](double h) {
      return harmonics_backward(op, moved(x, along, h), grad.data());
    };
    const Vector<double> above = first(1e-5), below = first(-1e-5);
    check::all_near(
        std::vector<double>{got.x, got.y, got.z},
        std::vector<double>{
            (above.x - below.x) / 2e-5, (above.y - below.y) / 2e-5, (above.z - below.z) / 2e-5},
        1e-8);
    const std::vector<double> y = evaluate(moved(x, along, 1e-5), normalize);
    std::vector<double> before = evaluate(moved(x, along, -1e-5), normalize);
    for (size_t k = 0; k < y.size(); ++k) {
      before[k] = (y[k] - before[k]) / 2e-5;
    }
    check::all_near(slopes, before, 1e-8);
  }
});

const bool packs =
    check::add_for_floats("harmonics of a register are those of its lanes", [](auto z) {
      using T = decltype(z);
      using Pack = WidePack<T>;
      static const Coefficients<T> table;
      constexpr int kW = kWidth<Pack, T>;
      Vector<Pack> x = {};
      for (int i = 0; i < kW; ++i) {
        const Vector<T> one = point<T>(50 + i);
        x.x[i] = one.x;
        x.y[i] = one.y;
        x.z[i] = one.z;
      }
      std::vector<T> out(kSize * kSize * kW);
      harmonics(table.template op<SphericalHarmonics>(true), x, out.data());
      for (int i = 0; i < kW; ++i) {
        const std::vector<T> want = evaluate(point<T>(50 + i), true);
        for (size_t k = 0; k < want.size(); ++k) {
          check::near(out[k * kW + i], want[k], 20 * check::epsilon<T>);
        }
      }
    });

}  // namespace
}  // namespace equigeo
