// Running grid products on the CPU, with the tables of the grid reduced to one of all mirror
// images.
//
// Values at the images of a point are sums and differences of parts that mirroring keeps or turns
// in sign, and of a sine, a cosine or an associated Legendre function all parts but one are zero.
// Which ones are is read off the tables: one that has no symmetry has all parts.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <forward_list>
#include <limits>
#include <numeric>
#include <vector>

#include "args/grid_product.h"
#include "kernels/cpu/grid_product.h"
#include "math/expansion.h"
#include "register/cpu/run_rows.h"
#include "register/tensors.h"

namespace equigeo {

// Points of one axis that are mirror images: image g of orbit j, as often as it is in the orbit.
struct Orbits {
  int64_t points, images;
  std::vector<std::array<int64_t, 4>> image;

  // Latitudes, mirrored in the equator.
  static Orbits of_latitudes(int64_t points) {
    Orbits orbits{points, 2, {}};
    for (int64_t i = 0; 2 * i < points; ++i) {
      orbits.image.push_back({i, points - 1 - i});
    }
    return orbits;
  }

  // Longitudes, mirrored in the first of them and, if their number is even, turned by half.
  static Orbits of_longitudes(int64_t points) {
    const int64_t half = points / 2;
    Orbits orbits{points, points % 2 == 0 ? 4 : 2, {}};
    for (int64_t j = 0; j < points && orbits.images * j < points + (points % 2 == 0); ++j) {
      const int64_t mirrored = (points - j) % points;
      orbits.image.push_back({j, mirrored, (j + half) % points, (mirrored + half) % points});
    }
    return orbits;
  }

  int64_t size() const { return static_cast<int64_t>(image.size()); }

  // Part c has this sign at image g.
  static int64_t sign(int64_t c, int64_t g) {
    const int64_t common = c & g;
    return common == 1 || common == 2 ? -1 : 1;
  }

  template <class T>
  T part(const T* row, int64_t c, int64_t orbit) const {
    T sum = 0;
    for (int64_t g = 0; g < images; ++g) {
      sum += static_cast<T>(sign(c, g)) * row[image[orbit][g]];
    }
    return sum / static_cast<T>(images);
  }

  // Whether a row has this part, apart from the rounding of its numbers.
  template <class T>
  bool has_part(const T* row, int64_t c) const {
    T most = 0;
    for (int64_t i = 0; i < points; ++i) {
      most = std::max(most, std::abs(row[i]));
    }
    const T rounding = 4 * std::numeric_limits<T>::epsilon() * most;
    for (int64_t j = 0; j < size(); ++j) {
      if (!(std::abs(part(row, c, j)) <= rounding)) {  // numbers that are not finite stay
        return true;
      }
    }
    return false;
  }

  // One over how often each point is in the orbit.
  double weight(int64_t orbit) const {
    const auto& all = image[orbit];
    return 1.0 / std::count(all.begin(), all.begin() + images, all[0]);
  }
};

template <class T>
class GridPlan {
 public:
  explicit GridPlan(const GridProduct<T>& op)
      : latitudes_(Orbits::of_latitudes(op.latitudes)),
        longitudes_(Orbits::of_longitudes(op.longitudes)) {
    folded_.first = fold(op.first, false);
    folded_.second = fold(op.second, false);
    folded_.third = fold(op.third, true);
    folded_.firsts = op.first.summands;
    folded_.seconds = op.second.summands;
    folded_.thirds = op.third.summands;
    folded_.summands = op.summands;
    folded_.samples = op.samples;
    folded_.pairs = latitudes_.size();
    folded_.orbits = longitudes_.size();
    folded_.images = longitudes_.images;
    folded_.x = op.x;
    folded_.y = op.y;
    folded_.out = op.out;
  }
  GridPlan(const GridPlan&) = delete;
  GridPlan& operator=(const GridPlan&) = delete;

  const FoldedProduct<T>& folded() const { return folded_; }

  // Multiply-adds of one sample.
  double work() const { return work_; }

 private:
  const FoldedExpansion<T>* fold(const Expansion<T>& expansion, bool analysis) {
    auto& all = expansions_.emplace_front();
    for (int64_t s = 0; s < expansion.summands; ++s) {
      const int64_t orders = orders_of(expansion), coefficients = coefficients_of(expansion);
      const T* legendre = expansion.legendre + s * coefficients * latitudes_.points;
      const T* trig = expansion.trig + s * orders * longitudes_.points;
      FoldedExpansion<T> folded{};
      folded.orders = orders;
      folded.coefficients = coefficients;
      folded.meridians = fold_meridians(legendre, expansion.lmax, analysis);
      if (analysis) {
        fold_analysis(trig, orders, folded);
      } else {
        folded.parallels = fold_parallels(trig, orders);
      }
      all.push_back(folded);
    }
    return all.data();
  }

  const Sum<T>* fold_meridians(const T* legendre, int64_t lmax, bool weigh) {
    auto& sums = sums_.emplace_front();
    for (int64_t m = -lmax; m <= lmax; ++m) {
      for (int64_t c = 0; c < 2; ++c) {
        std::vector<int64_t> rows;
        for (int64_t l = std::abs(m); l <= lmax; ++l) {
          rows.push_back(l * l + l + m);
        }
        sums.push_back(gather(latitudes_, legendre, rows, c, weigh));
        work_ += 2.0 * sums.back().entries * latitudes_.size();
      }
    }
    return sums.data();
  }

  const Sum<T>* fold_parallels(const T* trig, int64_t orders) {
    auto& sums = sums_.emplace_front();
    std::vector<int64_t> rows(orders);
    std::iota(rows.begin(), rows.end(), 0);
    for (int64_t c = 0; c < longitudes_.images; ++c) {
      sums.push_back(gather(longitudes_, trig, rows, c, false));
      work_ += 2.0 * sums.back().entries * longitudes_.size() * latitudes_.size();
    }
    return sums.data();
  }

  void fold_analysis(const T* trig, int64_t orders, FoldedExpansion<T>& folded) {
    auto& sums = sums_.emplace_front();
    auto& places = places_.emplace_front();
    std::vector<int64_t> rows(orders);
    std::iota(rows.begin(), rows.end(), 0);
    for (int64_t c = 0; c < longitudes_.images; ++c) {
      const Sum<T> byrow = gather(longitudes_, trig, rows, c, true);
      sums.push_back(transpose(byrow));
      places.push_back(byrow.index);
      work_ += 2.0 * byrow.entries * longitudes_.size() * latitudes_.size();
    }
    folded.analysis = sums.data();
    folded.order = places.data();
  }

  // Part c of those rows of a table that have it.
  Sum<T> gather(
      const Orbits& orbits,
      const T* table,
      const std::vector<int64_t>& rows,
      int64_t c,
      bool weigh) {
    auto& index = indices_.emplace_front();
    auto& value = values_.emplace_front();
    for (const int64_t row : rows) {
      if (orbits.has_part(table + row * orbits.points, c)) {
        index.push_back(row);
        for (int64_t j = 0; j < orbits.size(); ++j) {
          const T weight = weigh ? static_cast<T>(orbits.weight(j)) : T(1);
          value.push_back(weight * orbits.part(table + row * orbits.points, c, j));
        }
      }
    }
    return {index.data(), value.data(), static_cast<int64_t>(index.size()), orbits.size()};
  }

  Sum<T> transpose(const Sum<T>& sum) {
    auto& index = indices_.emplace_front(sum.columns);
    auto& value = values_.emplace_front(sum.entries * sum.columns);
    std::iota(index.begin(), index.end(), 0);
    for (int64_t e = 0; e < sum.entries; ++e) {
      for (int64_t j = 0; j < sum.columns; ++j) {
        value[j * sum.entries + e] = sum.value[e * sum.columns + j];
      }
    }
    return {index.data(), value.data(), sum.columns, sum.entries};
  }

  Orbits latitudes_, longitudes_;
  FoldedProduct<T> folded_{};
  double work_ = 0;
  std::forward_list<std::vector<FoldedExpansion<T>>> expansions_;
  std::forward_list<std::vector<Sum<T>>> sums_;
  std::forward_list<std::vector<const int64_t*>> places_;
  std::forward_list<std::vector<int64_t>> indices_;
  std::forward_list<std::vector<T>> values_;
};

template <class T>
void run(const GridProduct<T>& op, const Tensor&) {
  const GridPlan<T> plan(op);
  run_rows(
      EQUIGEO_SELECT_KERNELS(grid_product_rows), plan.folded(), op.samples,
      op.samples * plan.work(), kLeastSamples);
}

}  // namespace equigeo
