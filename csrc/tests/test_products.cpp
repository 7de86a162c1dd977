// Products of rows, by the matrix of an edge and by teams of lanes, against plain loops.
#include "check.h"
#include "math/copy_rows.h"
#include "math/edge_matrix.h"
#include "math/mixing_rows.h"

namespace equigeo {
namespace {

// Coefficients (i, j, k), about half of them zero, as a table lists them.
template <class T>
struct Coupling {
  int64_t d1, d2, d3;
  std::vector<double> dense;
  std::vector<Entry> entries;
  std::vector<T> values;

  Coupling(int64_t d1_, int64_t d2_, int64_t d3_, unsigned seed) : d1(d1_), d2(d2_), d3(d3_) {
    for (const T c : check::normal<T>(d1 * d2 * d3, seed)) {
      const int64_t n = static_cast<int64_t>(dense.size());
      dense.push_back(n % 2 == 0 ? static_cast<double>(c) : 0);
      if (dense.back() != 0) {
        entries.push_back({n / (d2 * d3), n / d3 % d2, n % d3});
        values.push_back(c);
      }
    }
  }

  double at(int64_t i, int64_t j, int64_t k) const { return dense[(i * d2 + j) * d3 + k]; }
};

Segment block(int64_t offset, int64_t mul, int64_t d, bool ir_mul) {
  return ir_mul ? Segment{offset, mul, d, 1, mul} : Segment{offset, mul, d, d, 1};
}

int64_t element(const Segment& segment, int64_t u, int64_t i) {
  return segment.offset + u * segment.copy + i * segment.step;
}

struct SingleLane {
  int64_t lane = 0, lanes = 1;
  void sync() const {}
  template <class T>
  T sum(T value) const {
    return value;
  }
};

// A table of one path, and operands of a few rows with a gap on either side.
template <class T>
struct Problem {
  static constexpr int64_t kRows = 3;
  Coupling<T> coupling;
  Path path;
  int64_t dim_x, dim_y, dim_out, dim_weight;
  std::vector<T> x, y, weight, grad;

  Problem(int64_t mul, int64_t mul2, int64_t mul3, int64_t weights, bool ir_mul)
      : coupling(3, 5, 7, 9),
        dim_x(mul * 3 + 2),
        dim_y(mul2 * 5 + 2),
        dim_out(mul3 * 7 + 2),
        dim_weight(weights + 2),
        x(check::normal<T>(kRows * dim_x, 10)),
        y(check::normal<T>(kRows * dim_y, 11)),
        weight(check::normal<T>(kRows * dim_weight, 12)),
        grad(check::normal<T>(kRows * dim_out, 13)) {
    path = {
        block(1, mul, 3, ir_mul),
        block(1, mul2, 5, ir_mul),
        block(1, mul3, 7, ir_mul),
        1,
        0,
        static_cast<int64_t>(coupling.values.size())};
  }

  PathTable<T> table() const {
    return {
        &path,
        1,
        coupling.entries.data(),
        coupling.values.data(),
        path.last,
        dim_x,
        dim_y,
        dim_weight,
        dim_out,
        true,
        false};
  }

  ProductInputs<T> inputs() const {
    return {table(), x.data(), y.data(), weight.data(), dim_weight, kRows};
  }

  // Add w x y C to the output, and what arrives there to the gradients, for one triple of copies.
  struct Sums {
    std::vector<double> out, x, y, weight;
  };

  Sums zeros() const {
    return {
        std::vector<double>(grad.size()), std::vector<double>(x.size()),
        std::vector<double>(y.size()), std::vector<double>(weight.size())};
  }

  void add(Sums& sums, int64_t row, int64_t u, int64_t v, int64_t w, int64_t n) const {
    const int64_t at_w = row * dim_weight + path.weight + n;
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t j = 0; j < 5; ++j) {
        for (int64_t k = 0; k < 7; ++k) {
          const int64_t at_x = row * dim_x + element(path.x, u, i);
          const int64_t at_y = row * dim_y + element(path.y, v, j);
          const int64_t at_out = row * dim_out + element(path.out, w, k);
          const double c = coupling.at(i, j, k), g = grad[at_out];
          sums.out[at_out] += c * weight[at_w] * x[at_x] * y[at_y];
          sums.x[at_x] += c * g * weight[at_w] * y[at_y];
          sums.y[at_y] += c * g * weight[at_w] * x[at_x];
          sums.weight[at_w] += c * g * x[at_x] * y[at_y];
        }
      }
    }
  }
};

// --- Copies that are coupled, and mixed by no one

template <class T>
void check_copywise(const Problem<T>& problem, bool matched, double perturb) {
  auto want = problem.zeros();
  const int64_t mul = problem.path.x.mul, mul2 = problem.path.y.mul;
  for (int64_t row = 0; row < problem.kRows; ++row) {
    for (int64_t u = 0; u < mul; ++u) {
      for (int64_t v = matched ? u : 0; v < (matched ? u + 1 : mul2); ++v) {
        const int64_t copy = matched ? u : u * mul2 + v;
        problem.add(want, row, u, v, copy, copy);
      }
    }
  }
  want.out[problem.path.out.offset] += perturb;
  std::vector<T> out(want.out.size(), T(7)), to_x(want.x.size()), to_y(want.y.size());
  std::vector<T> to_weight(want.weight.size());
  const CopywiseProduct<T> op{{problem.inputs(), out.data(), false}};
  const CopywiseProductBackward<T> back{
      {problem.inputs(), problem.grad.data(), to_x.data(), to_y.data(), to_weight.data(), false,
       false}};
  for (int64_t row = 0; row < problem.kRows; ++row) {
    copywise_row(op, row, SingleLane{});
    copywise_backward_row(back, row, SingleLane{});
  }
  const double tolerance = 100 * check::epsilon<T>;  // sums of up to 105 terms of order one
  check::all_near(out, want.out, tolerance);
  check::all_near(to_x, want.x, tolerance);
  check::all_near(to_y, want.y, tolerance);
  check::all_near(to_weight, want.weight, tolerance);
}

const bool pairs = check::add_for_floats("all pairs of copies, with gradients", [](auto zero) {
  using T = decltype(zero);
  check_copywise(Problem<T>(3, 2, 6, 6, false), false, 0);
  check_copywise(Problem<T>(3, 2, 6, 6, true), false, 0);
});

const bool matched = check::add_for_floats("copies one by one, with gradients", [](auto zero) {
  using T = decltype(zero);
  check_copywise(Problem<T>(5, 5, 5, 5, false), true, 0);
  check_copywise(Problem<T>(5, 5, 5, 5, true), true, 0);
});

const bool control = check::add_for_floats("products: a small change is seen", [](auto zero) {
  using T = decltype(zero);
  const Problem<T> problem(3, 2, 6, 6, false);
  check::holds(
      check::fails([&] { check_copywise(problem, false, 0.01); }), "an output is off by 0.01");
});

// --- Channels that are mixed

const bool mixed = check::add_for_floats("fully connected rows, tile by tile", [](auto zero) {
  using T = decltype(zero);
  const Problem<T> problem(3, 2, 5, 3 * 2 * 5, false);
  auto want = problem.zeros();
  for (int64_t row = 0; row < problem.kRows; ++row) {
    for (int64_t n = 0; n < 3 * 2 * 5; ++n) {
      problem.add(want, row, n / 10, n / 5 % 2, n % 5, n);
    }
  }
  std::vector<T> out(want.out.size()), to_x(want.x.size()), to_y(want.y.size());
  std::vector<T> to_weight(want.weight.size());
  const FullyConnectedProduct<T> op{{problem.inputs(), out.data(), false}};
  const FullyConnectedProductBackward<T> back{
      {problem.inputs(), problem.grad.data(), to_x.data(), to_y.data(), to_weight.data(), false,
       false}};
  constexpr int64_t kTile = 4 * 7;  // four of six pairs at a time
  T couplings[kTile], slopes[kTile];
  for (int64_t row = 0; row < problem.kRows; ++row) {
    const CouplingTile<T> tile{couplings, slopes, kTile};
    fully_connected_row(op, row, tile, SingleLane{});
    fully_connected_backward_row(back, row, tile, SingleLane{});
  }
  const double tolerance = 200 * check::epsilon<T>;
  check::all_near(out, want.out, tolerance);
  check::all_near(to_x, want.x, tolerance);
  check::all_near(to_y, want.y, tolerance);
  check::all_near(to_weight, want.weight, tolerance);
});

// --- Channels by the matrix of an edge

const bool matrix = check::add_for_floats("channels by the matrix of an edge", [](auto zero) {
  using T = decltype(zero);
  constexpr int64_t kChannels = 5;
  const Coupling<T> c(3, 5, 7, 14);
  const Path path{
      block(0, 5, 3, true),
      block(0, 1, 5, true),
      block(0, 5, 7, true),
      0,
      0,
      static_cast<int64_t>(c.values.size())};
  PathTable<T> table{};
  table.entry = c.entries.data();
  table.value = c.values.data();
  const std::vector<T> x = check::normal<T>(3 * kChannels, 15), y = check::normal<T>(5, 16);
  const std::vector<T> w = check::normal<T>(kChannels, 17), g = check::normal<T>(7 * kChannels, 18);
  std::vector<T> m(7 * 3), out(7 * kChannels);
  edge_matrix<T>(table, path, y.data(), 1, m.data());
  for (int64_t u = 0; u < kChannels; ++u) {
    apply_matrix<T, 3, 1, 1>(
        m.data(), 7, x.data() + u, kChannels, w.data() + u, out.data() + u, kChannels, false);
  }
  std::vector<T> to_x(x.size()), to_w(w.size()), weighted(x.size()), to_m(m.size()), to_y(y.size());
  for (int64_t u = 0; u < kChannels; ++u) {
    transpose_matrix<T, 3, 1, 1>(
        m.data(), 7, g.data() + u, kChannels, x.data() + u, w.data() + u, kChannels,
        to_x.data() + u, to_w.data() + u, weighted.data() + u);
  }
  std::vector<T> twice = to_w;  // those of the weights alone, added
  T* none = nullptr;
  for (int64_t u = 0; u < kChannels; ++u) {
    transpose_matrix<T, 3, 1, 1>(
        m.data(), 7, g.data() + u, kChannels, x.data() + u, w.data() + u, kChannels, none,
        twice.data() + u, none, true);
  }
  for (int64_t k = 0; k < 7; ++k) {
    matrix_gradient<T, 3, 1>(
        g.data() + k * kChannels, kChannels, weighted.data(), kChannels, kChannels,
        to_m.data() + k * 3);
  }
  std::vector<T> m_twice = to_m;
  for (int64_t k = 0; k < 7; ++k) {
    matrix_gradient<T, 3, 1>(
        g.data() + k * kChannels, kChannels, weighted.data(), kChannels, kChannels,
        m_twice.data() + k * 3, true);
  }
  std::vector<double> want_m_twice;
  for (const T slope : to_m) {
    want_m_twice.push_back(2.0 * slope);
  }
  struct {
    const Entry* entry_by_second;
    const T* value_by_second;
  } sorted;
  std::vector<Entry> entries;
  std::vector<T> values;
  for (int64_t j = 0; j < 5; ++j) {
    for (size_t n = 0; n < c.entries.size(); ++n) {
      if (c.entries[n].j == j) {
        entries.push_back(c.entries[n]);
        values.push_back(c.values[n]);
      }
    }
  }
  sorted = {entries.data(), values.data()};
  contract_gradient<T>(sorted, path, to_m.data(), to_y.data(), 1);
  std::vector<double> want(out.size()), want_x(x.size()), want_w(w.size()), want_y(y.size());
  std::vector<double> want_twice(w.size());
  for (int64_t u = 0; u < kChannels; ++u) {
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t j = 0; j < 5; ++j) {
        for (int64_t k = 0; k < 7; ++k) {
          const double term = c.at(i, j, k);
          const int64_t at_x = i * kChannels + u, at_out = k * kChannels + u;
          want[at_out] += term * w[u] * x[at_x] * y[j];
          want_x[at_x] += term * w[u] * y[j] * g[at_out];
          want_w[u] += term * x[at_x] * y[j] * g[at_out];
          want_twice[u] += 2 * term * x[at_x] * y[j] * g[at_out];
          want_y[j] += term * w[u] * x[at_x] * g[at_out];
        }
      }
    }
  }
  const double tolerance = 100 * check::epsilon<T>;
  check::all_near(out, want, tolerance);
  check::all_near(to_x, want_x, tolerance);
  check::all_near(to_w, want_w, tolerance);
  check::all_near(twice, want_twice, 2 * tolerance);
  check::all_near(m_twice, want_m_twice, 2 * tolerance);
  check::all_near(to_y, want_y, tolerance);
});

// --- Tables

const bool inside_row = check::add("segments that leave their row are found, without overflow", [] {
  check::holds(inside(Segment{0, 2, 3, 3, 1}, 6), "copies that fill a row");
  check::holds(!inside(Segment{1, 2, 3, 3, 1}, 6), "one element beyond");
  check::holds(inside(Segment{1, 2, 3, 1, 2}, 7), "components outside");
  check::holds(!inside(Segment{-1, 2, 3, 3, 1}, 6), "a negative offset");
  check::holds(!inside(Segment{INT64_MIN, 2, 3, 3, 1}, 6), "the least offset");
  check::holds(!inside(Segment{0, 0, 3, 3, 1}, 6), "no copies");
  check::holds(!inside(Segment{0, 2, 3, 0, 1}, 6), "copies on one another");
  check::holds(!inside(Segment{0, int64_t{1} << 62, 3, 3, 1}, 6), "many copies");
  check::holds(!inside(Segment{0, 2, 3, int64_t{1} << 62, 1}, 6), "copies far apart");
  check::holds(!inside(0, int64_t{1} << 40, int64_t{1} << 40, 6), "a large block of weights");
});

const bool layouts = check::add("the layout of a segment is that of its strides", [] {
  check::holds(is_block(block(4, 2, 3, false), false), "mul_ir");
  check::holds(is_block(block(4, 2, 3, true), true), "ir_mul");
  check::holds(!is_block(block(4, 2, 3, true), false), "one is not the other");
  check::holds(!is_block(block(4, 2, 3, false), true), "nor the other way round");
  check::holds(is_block(block(4, 1, 3, false), true), "one copy is both");
  check::holds(is_block(block(4, 2, 1, true), false), "one component is both");
  check::holds(!is_block(Segment{0, 2, 3, 4, 1}, false), "a gap is neither");
});

}  // namespace
}  // namespace equigeo
