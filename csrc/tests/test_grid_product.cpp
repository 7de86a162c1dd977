// Functions on a grid from their factors, and small sums of packs, against plain loops.
#include "math/grid_product.h"

#include "check.h"
#include "kernels/cpu/pack.h"
#include "math/expansion.h"

namespace equigeo {
namespace {

constexpr int64_t kMost = 2, kLatitudes = 3, kLongitudes = 5, kSummands = 2;

template <class T>
struct Grid {
  std::vector<T> legendre = check::normal<T>(kSummands * 9 * kLatitudes, 60);
  std::vector<T> trig = check::normal<T>(kSummands * 5 * kLongitudes, 61);

  Expansion<T> expansion() const { return {legendre.data(), trig.data(), kSummands, kMost}; }

  double factor(int64_t s, int64_t l, int64_t m, int64_t i, int64_t j) const {
    const int64_t c = l * l + l + m;
    return static_cast<double>(legendre[(s * 9 + c) * kLatitudes + i]) *
           trig[(s * 5 + m + kMost) * kLongitudes + j];
  }
};

const bool values = check::add_for_floats("a function at the points of a grid", [](auto zero) {
  using T = decltype(zero);
  const Grid<T> grid;
  const std::vector<T> coefficients = check::normal<T>(9, 62);
  for (int64_t s = 0; s < kSummands; ++s) {
    for (int64_t i = 0; i < kLatitudes; ++i) {
      std::vector<T> orders, got;
      for (int64_t m = 0; m < 5; ++m) {
        orders.push_back(
            along_meridian(grid.expansion(), kLatitudes, s, m, i, coefficients.data()));
      }
      std::vector<double> want(kLongitudes);
      for (int64_t j = 0; j < kLongitudes; ++j) {
        got.push_back(along_parallel(grid.expansion(), kLongitudes, s, j, orders.data()));
        for (int64_t l = 0; l <= kMost; ++l) {
          for (int64_t m = -l; m <= l; ++m) {
            want[j] += coefficients[l * l + l + m] * grid.factor(s, l, m, i, j);
          }
        }
      }
      check::all_near(got, want, 50 * check::epsilon<T>);
    }
  }
});

const bool transpose =
    check::add_for_floats("analysis is the transpose of synthesis", [](auto zero) {
      using T = decltype(zero);
      const Grid<T> grid;
      const std::vector<T> points = check::normal<T>(kLongitudes, 63);
      std::vector<T> got(9);
      std::vector<double> want(9);
      for (int64_t m = 0; m < 5; ++m) {
        const T part = analyze_parallel(grid.expansion(), kLongitudes, 1, m, points.data());
        analyze_meridian(grid.expansion(), kLatitudes, 1, m, 2, part, got.data());
      }
      for (int64_t l = 0; l <= kMost; ++l) {
        for (int64_t m = -l; m <= l; ++m) {
          for (int64_t j = 0; j < kLongitudes; ++j) {
            want[l * l + l + m] += points[j] * grid.factor(1, l, m, 2, j);
          }
        }
      }
      check::all_near(got, want, 50 * check::epsilon<T>);
      check::holds(
          check::fails([&] { check::all_near(points, got, 50 * check::epsilon<T>); }),
          "negative control: values are their own coefficients");
    });

const bool columns =
    check::add_for_floats("sums with constant factors, and transposed", [](auto z) {
      using T = decltype(z);
      using Pack = WidePack<T>;
      constexpr int kW = kWidth<Pack, T>;
      const std::vector<int64_t> index = {4, 0, 2};
      const std::vector<T> value = check::normal<T>(3 * 2, 64), in = check::normal<T>(5 * kW, 65);
      const Sum<T> sum{index.data(), value.data(), 3, 2};
      Pack out[2][1];
      sum_columns<Pack, 2, 1>(sum, 0, in.data(), out);
      std::vector<T> back(5 * kW);
      const Pack packs[2] = {out[0][0], out[1][0]};
      add_columns<Pack, 2>(sum, 0, packs, back.data());
      for (int lane = 0; lane < kW; ++lane) {
        double want[2] = {};
        for (int e = 0; e < 3; ++e) {
          for (int j = 0; j < 2; ++j) {
            want[j] += static_cast<double>(value[e * 2 + j]) * in[index[e] * kW + lane];
          }
        }
        for (int j = 0; j < 2; ++j) {
          check::near(out[j][0][lane], want[j], 20 * check::epsilon<T>);
        }
        for (int e = 0; e < 3; ++e) {
          const double image = value[e * 2] * want[0] + value[e * 2 + 1] * want[1];
          check::near(back[index[e] * kW + lane], image, 50 * check::epsilon<T>);
        }
      }
    });

const bool images = check::add("values at mirror images and back", [] {
  const std::vector<double> given = check::normal<double>(4, 66);
  double parts[4] = {given[0], given[1], given[2], given[3]};
  mix_images<double, 4>(parts);
  check::near(parts[0], given[0] + given[1] + given[2] + given[3], 1e-14);
  mix_images<double, 4>(parts);
  for (int i = 0; i < 4; ++i) {
    check::near(parts[i], 4 * given[i], 1e-14);
  }
});

}  // namespace
}  // namespace equigeo
