// Weighted polynomials of the variables of a channel against a plain sum of monomials.
#include "math/symmetric_contraction.h"

#include "check.h"

namespace equigeo {
namespace {

// z_0 = w_0 (a_0 + a_1 x_0) x_1 x_2 + w_1 a_2 x_2^2 and z_2 = w_2 x_0 (a_3 x_1 + a_4 x_1 x_2):
// three variables, three weights, three components of which one is zero.
template <class T>
struct Contraction {
  // Nodes: one, x_0, x_1, x_2, x_1 x_2, x_2 x_2.
  std::vector<Product> products = {{2, 3}, {3, 3}};
  std::vector<Polynomial> polynomials = {{0, 0, 0, 1}, {1, 0, 1, 2}, {2, 2, 2, 3}};
  std::vector<Group> groups = {{4, 0, 2}, {5, 2, 3}, {1, 3, 5}};
  std::vector<int64_t> terms = {0, 1, 0, 2, 4};
  std::vector<T> values = check::normal<T>(5, 19);

  Polynomials<T> table() const {
    return {
        products.data(),
        polynomials.data(),
        groups.data(),
        terms.data(),
        values.data(),
        2,
        3,
        3,
        5,
        3,
        3,
        3,
        6};
  }

  template <class N>
  std::vector<N> direct(const std::vector<N>& x, const std::vector<N>& w) const {
    const auto a = [&](int n) { return static_cast<double>(values[n]); };
    return {
        w[0] * (a(0) + a(1) * x[0]) * x[1] * x[2] + w[1] * a(2) * x[2] * x[2], N(0),
        w[2] * x[0] * (a(3) * x[1] + a(4) * x[1] * x[2])};
  }
};

template <class T>
struct Row {
  T* data;
  T load(int64_t i, int) const { return data[i]; }
  void store(int64_t i, int, T value) const { data[i] = value; }
  void add(int64_t i, int, T value) const { data[i] += value; }
};

template <class T>
std::vector<double> as_double(const std::vector<T>& numbers) {
  return {numbers.begin(), numbers.end()};
}

const bool forward = check::add_for_floats("a contraction is its polynomials", [](auto zero) {
  using T = decltype(zero);
  const Contraction<T> c;
  for (unsigned seed = 20; seed < 27; ++seed) {
    std::vector<T> x = check::normal<T>(3, seed), w = check::normal<T>(3, seed + 10);
    std::vector<T> nodes(6), z(3, T(7));
    const NodeArray<T, 1, 1, T> array{nodes.data()};
    make_nodes(c.table(), Row<T>{x.data()}, array);
    contract(c.table(), array, Row<T>{w.data()}, Row<T>{z.data()});
    const std::vector<double> want = c.direct(as_double(x), as_double(w));
    check::all_near(z, want, 20 * check::epsilon<T>);
    x[2] += T(0.01);
    check::holds(
        check::fails([&] { check::all_near(z, c.direct(as_double(x), as_double(w)), 1e-5); }),
        "negative control: another point has the same values");
  }
});

const bool backward =
    check::add_for_floats("gradients of a contraction against differences", [](auto zero) {
      using T = decltype(zero);
      const Contraction<T> c;
      std::vector<T> x = check::normal<T>(3, 40), w = check::normal<T>(3, 41);
      std::vector<T> grad = check::normal<T>(3, 42), nodes(6), slopes(6), to_grad(3), to_w(3);
      const NodeArray<T, 1, 1, T> array{nodes.data()}, array_slopes{slopes.data()};
      make_nodes(c.table(), Row<T>{x.data()}, array);
      contract_backward<true>(
          c.table(), array, array_slopes, Row<T>{grad.data()}, Row<T>{w.data()},
          Row<T>{to_grad.data()}, Row<T>{to_w.data()});
      const auto loss = [&](const std::vector<double>& at_x, const std::vector<double>& at_w) {
        const std::vector<double> z = c.direct(at_x, at_w);
        return grad[0] * z[0] + grad[1] * z[1] + grad[2] * z[2];
      };
      std::vector<double> want_x(3), want_w(3);
      const double h = 1e-5;
      for (int i = 0; i < 3; ++i) {
        std::vector<double> above = as_double(x), below = above, w_above = as_double(w);
        std::vector<double> w_below = w_above;
        above[i] += h;
        below[i] -= h;
        w_above[i] += h;
        w_below[i] -= h;
        want_x[i] = (loss(above, as_double(w)) - loss(below, as_double(w))) / (2 * h);
        want_w[i] = (loss(as_double(x), w_above) - loss(as_double(x), w_below)) / (2 * h);
      }
      const double tolerance = 1e-8 + 20 * check::epsilon<T>;
      check::all_near(std::vector<T>(slopes.begin() + 1, slopes.begin() + 4), want_x, tolerance);
      check::all_near(to_w, want_w, tolerance);
      check::all_near(to_grad, c.direct(as_double(x), as_double(w)), tolerance);
    });

const bool runs = check::add("runs cover the rows of every set once", [] {
  const std::vector<int64_t> ptr = {0, 5, 5, 5 + 2 * kRowsOfRun + 1, 60};
  const int64_t sets = 4, count = ptr.back() / kRowsOfRun + sets;
  std::vector<int> covered(ptr.back());
  for (int64_t n = 0; n < count; ++n) {
    const Run run = find_run(ptr.data(), sets, n);
    check::holds(run.end - run.begin <= kRowsOfRun, "no run is too long");
    for (int64_t r = run.begin; r < run.end; ++r) {
      check::holds(ptr[run.set] <= r && r < ptr[run.set + 1], "rows of the set");
      ++covered[r];
    }
  }
  for (const int times : covered) {
    check::holds(times == 1, "every row once");
  }
});

}  // namespace
}  // namespace equigeo
