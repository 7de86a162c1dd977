// Torques of the edges of a tile about the axes of their frames.
#pragma once

#include "kernels/cpu/so2_rotate.h"

namespace equigeo {
namespace {

// Sums of wide . G narrow about x and z, of one edge at a time; `wide` has orders up to top + 1 and
// `narrow` up to `top`. Lanes are summed once for all terms.
template <class T>
class Torque {
 public:
  Torque(int64_t lmax, int64_t top) : top_(top) {
    for (int64_t l = 1; l <= lmax; ++l) {
      for (int64_t m = 0; m < l && m <= top; ++m) {
        const double square = (l * (l + 1) - m * (m + 1)) * (m == 0 ? 2 : 1);
        factors_[l][m] = static_cast<T>(-0.5 * __builtin_sqrt(square));
      }
    }
  }

  void clear() {
    wide_ = Sums<WidePack<T>>{};
    rest_ = Sums<T>{};
  }

  void add(
      const SO2Term* terms,
      int64_t count,
      const Orders<T>& wide,
      const Orders<T>& narrow,
      int64_t edge) {
    constexpr int64_t kW = kWidth<WidePack<T>, T>;
    for (int64_t n = 0; n < count; ++n) {
      const SO2Term& term = terms[n];
      if (term.l == 0) {
        continue;
      }
      const int64_t most = term.l < top_ ? term.l : top_;
      const int64_t beyond = term.l < top_ + 1 ? term.l : top_ + 1;
      Component<T> left[2 * kMostOrders], right[2 * kMostOrders];
      for (int64_t m = -beyond; m <= beyond; ++m) {
        left[kMostOrders + m] = component_of(wide, term, m, edge);
      }
      for (int64_t m = -most; m <= most; ++m) {
        right[kMostOrders + m] = component_of(narrow, term, m, edge);
      }
      int64_t c = 0;
      for (; c + kW <= term.mul; c += kW) {
        add_channels(term.l, left + kMostOrders, right + kMostOrders, c, wide_);
      }
      for (; c < term.mul; ++c) {
        add_channels(term.l, left + kMostOrders, right + kMostOrders, c, rest_);
      }
    }
  }

  T about_x() const { return rest_.x + sum_lanes<T, EQUIGEO_PACK_BYTES>(wide_.x); }
  T about_z() const { return rest_.z + sum_lanes<T, EQUIGEO_PACK_BYTES>(wide_.z); }

 private:
  template <class Pack>
  struct Sums {
    Pack x, z;
  };

  template <class Pack>
  void add_channels(
      int64_t l,
      const Component<T>* wide,
      const Component<T>* narrow,
      int64_t c,
      Sums<Pack>& sums) {
    const auto at = [&](const Component<T>& component) {
      return component.sign * Memory<Pack, T>::load(component.at + c);
    };
    Pack plus = at(narrow[0]), minus = {};  // of order m
    for (int64_t m = 0; m < l && m <= top_; ++m) {
      const int64_t next = m + 1;
      const Pack up = at(wide[next]), down = at(wide[-next]);
      Pack x = -(up * plus), z = down * plus;
      if (m > 0) {
        x -= down * minus;
        z -= up * minus;
      }
      if (next <= top_) {
        const Pack left = at(wide[m]);
        plus = at(narrow[next]);
        minus = at(narrow[-next]);
        x += left * plus;
        z -= left * minus;
        if (m > 0) {
          const Pack other = at(wide[-m]);
          x += other * minus;
          z += other * plus;
        }
      }
      sums.x += factors_[l][m] * x;
      sums.z += factors_[l][m] * z;
    }
  }

  int64_t top_;
  T factors_[kMostOrders][kMostOrders] = {};
  Sums<WidePack<T>> wide_{};
  Sums<T> rest_{};
};

}  // namespace
}  // namespace equigeo
