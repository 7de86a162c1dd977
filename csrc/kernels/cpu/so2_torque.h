// Torques of the edges of a tile about the axes of their frames.
#pragma once

#include "kernels/cpu/so2_rotate.h"
#include "math/so2_torque.h"

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
        factors_[l][m] = torque_factor<T>(l, m);
      }
    }
  }

  void clear() {
    wide_ = TorqueSums<WidePack<T>>{};
    rest_ = TorqueSums<T>{};
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
  void add_channels(
      int64_t l,
      const Component<T>* wide,
      const Component<T>* narrow,
      int64_t c,
      TorqueSums<Pack>& sums) {
    const auto at = [c](const Component<T>& component) {
      return component.sign * Memory<Pack, T>::load(component.at + c);
    };
    add_torque(
        factors_[l], l, top_, [&](int64_t m) { return at(wide[m]); },
        [&](int64_t m) { return at(narrow[m]); }, sums);
  }

  int64_t top_;
  T factors_[kMostOrders][kMostOrders] = {};
  TorqueSums<WidePack<T>> wide_{};
  TorqueSums<T> rest_{};
};

}  // namespace
}  // namespace equigeo
