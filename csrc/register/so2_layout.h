// The terms of a convolution by orders, and where its numbers lie.
#pragma once

#include <algorithm>
#include <vector>

#include "args/so2_conv.h"
#include "register/tensors.h"

namespace equigeo {

// The lists of integers of an op, parsed; the plan points into it.
class SO2Layout {
 public:
  SO2Layout(
      const std::vector<int64_t>& in,
      const std::vector<int64_t>& out,
      int64_t mmax,
      bool complex_weights,
      bool by_order)
      : in_(read_terms(in, plan_.dim_in)), out_(read_terms(out, plan_.dim_out)) {
    plan_.in = in_.data();
    plan_.out = out_.data();
    plan_.terms_in = static_cast<int64_t>(in_.size());
    plan_.terms_out = static_cast<int64_t>(out_.size());
    plan_.mmax = mmax;
    plan_.complex_weights = complex_weights;
    plan_.by_order = by_order;
    int64_t most_in = 0, most_out = 0;
    for (const SO2Term& term : in_) {
      plan_.lmax = std::max(plan_.lmax, term.l);
      most_in = std::max(most_in, term.mul > 0 ? term.l : 0);
    }
    for (const SO2Term& term : out_) {
      plan_.lmax = std::max(plan_.lmax, term.l);
      most_out = std::max(most_out, term.mul > 0 ? term.l : 0);
    }
    EQUIGEO_CHECK(
        0 <= mmax && mmax <= std::min(most_in, most_out),
        "mmax must be from 0 to the degrees of both sides, got ", mmax);
    for (int64_t m = 0; m < kMostOrders; ++m) {
      plan_.width_in[m] = assign_columns(in_, m);
      plan_.width_out[m] = assign_columns(out_, m);
    }
    for (int64_t m = 0; m <= mmax; ++m) {
      const int64_t size = plan_.width_in[m] * plan_.width_out[m];
      plan_.weight[m] = plan_.weight_numel;
      plan_.weight_numel += size * (complex_weights && m > 0 ? 2 : 1);
      plan_.forward[m] = plan_.forward_numel;
      plan_.adjoint[m] = plan_.adjoint_numel;
      const int64_t matrices = matrices_of(plan_, m);
      plan_.forward_numel += matrices * padded_width(plan_.width_out[m]) * plan_.width_in[m];
      plan_.adjoint_numel += matrices * padded_width(plan_.width_in[m]) * plan_.width_out[m];
      plan_.scale[m] = plan_.scale_numel;
      plan_.scale_numel += by_order || m == 0 ? plan_.width_in[m] : 0;
    }
    plan_.tile = tile_of(plan_);
  }

  const SO2Plan& plan() const { return plan_; }

 private:
  static std::vector<SO2Term> read_terms(const std::vector<int64_t>& flat, int64_t& dim) {
    EQUIGEO_CHECK(flat.size() % 3 == 0, "terms must have three numbers each");
    std::vector<SO2Term> terms;
    dim = 0;
    for (size_t k = 0; k < flat.size(); k += 3) {
      SO2Term term{};
      term.mul = flat[k];
      term.l = flat[k + 1];
      term.swapped = flat[k + 2] != 0;
      EQUIGEO_CHECK(
          term.l >= 0 && term.l <= kMostOrders - 2, "degrees must be from 0 to ", kMostOrders - 2,
          ", got ", term.l);
      check_components("copies", term.mul);
      term.offset = dim;
      dim += term.mul * (2 * term.l + 1);
      check_components("components", dim);
      terms.push_back(term);
    }
    return terms;
  }

  static int64_t assign_columns(std::vector<SO2Term>& terms, int64_t m) {
    int64_t width = 0;
    for (SO2Term& term : terms) {
      term.column[m] = width;
      width += term.l >= m ? term.mul : 0;
    }
    return width;
  }

  // Edges whose operands are about a megabyte, so that matrices are read for many of them.
  static int64_t tile_of(const SO2Plan& plan) {
    constexpr int64_t kStep = 24, kLeast = 48, kMost = 192, kNumbers = 1 << 18;
    int64_t numbers = 1;
    for (int64_t m = 0; m <= plan.mmax; ++m) {
      numbers += (m == 0 ? 1 : 2) * (plan.width_in[m] + plan.width_out[m]);
    }
    return std::clamp(kNumbers / numbers / kStep * kStep, kLeast, kMost);
  }

  SO2Plan plan_{};
  std::vector<SO2Term> in_, out_;
};

}  // namespace equigeo
