// What rounding can do to the principal axes of one cloud.
#pragma once

#include "args/axis_flags.h"
#include "args/principal_axes.h"
#include "math/square_root.h"

namespace equigeo {
namespace {

// One row of the arrays; everything relative to the first spread.
template <class T>
struct JudgedCloud {
  const AxisFlags<T>& op;
  const T *spread, *margin, *centroid;
  T* gap;
  bool *ambiguous, *degenerate;
  double inverse, noise;  // of the first spread; rounding

  EQUIGEO_HOST_DEVICE JudgedCloud(const AxisFlags<T>& all, int64_t cloud)
      : op(all),
        spread(all.spread + cloud * all.dim),
        margin(all.margin + cloud * all.dim),
        centroid(all.centroid + cloud * all.dim),
        gap(all.gap + cloud * (all.dim - 1)),
        ambiguous(all.ambiguous + cloud * all.dim),
        degenerate(all.degenerate + cloud * (all.dim - 1)),
        inverse(spread[0] == 0 ? 1 : 1 / static_cast<double>(spread[0])) {
    double square = 0, far = 0;
    for (int64_t k = 0; k < op.dim; ++k) {
      const double one = unit(k), place = size(centroid[k]) * inverse;
      square += one * one;
      far = place > far ? place : far;
    }
    const double weights = total(cloud);
    const double rms = square_root(square / (weights == 0 ? 1 : weights));
    noise = op.eps * (1 + far / (rms == 0 ? 1 : rms));
  }

  EQUIGEO_HOST_DEVICE static double size(T x) { return x < 0 ? -static_cast<double>(x) : x; }

  EQUIGEO_HOST_DEVICE double unit(int64_t k) const { return spread[k] * inverse; }

  EQUIGEO_HOST_DEVICE bool null(int64_t k) const { return spread[k] == 0; }

  EQUIGEO_HOST_DEVICE bool finite() const { return spread[0] == spread[0]; }

  EQUIGEO_HOST_DEVICE double total(int64_t cloud) const {
    const int64_t begin = op.ptr[cloud], end = op.ptr[cloud + 1];
    if (op.weight == nullptr) {
      return static_cast<double>(end - begin);
    }
    double sum = 0;
    for (int64_t p = begin; p < end; ++p) {
      sum += op.weight[p];
    }
    return sum;
  }

  EQUIGEO_HOST_DEVICE double gap_below(int64_t k) const {
    return unit(k) * unit(k) - unit(k + 1) * unit(k + 1);
  }

  // Whether an error of the axes may have made a margin. One of noise / gap changes it by a few
  // times that, and more where it mixes longer coordinates into short ones.
  EQUIGEO_HOST_DEVICE bool within_error(double margin_size, int64_t k) const {
    double nearest = __builtin_inf();
    if (k > 0) {
      nearest = gap_below(k - 1);
    }
    if (k + 1 < op.dim) {
      const double other = gap_below(k);
      nearest = other < nearest ? other : nearest;
    }
    nearest = nearest > op.eps ? nearest : op.eps;
    const double longer = unit(k > 0 ? k - 1 : 0), own = null(k) ? 1 : unit(k);
    // 50 is "a few times", and the constant of the error noise / gap, with a margin: it is
    // chosen, and equigeo/ops/geometry/axis_flags.py chooses the same. A single axis has no other:
    // infinity times a margin of zero is no number, and not in error.
    const bool turned = margin_size * own * nearest <= 50 * noise * longer;
    return (turned || margin_size <= op.sign_tol) && margin_size <= 1;
  }

  EQUIGEO_HOST_DEVICE bool unclear(int64_t k) const {
    return !null(k) && within_error(size(margin[k]), k);
  }

  // The axis that makes frames right-handed: a null one, else by the rule; of equal ones the last.
  EQUIGEO_HOST_DEVICE int64_t dependent() const {
    int64_t found = op.dim - 1;
    for (int64_t k = op.dim - 1; k-- > 0 && !null(found);) {
      found = null(k) || (op.signs == Signs::kLeast && size(margin[k]) < size(margin[found]))
                  ? k
                  : found;
    }
    return found;
  }

  // Whether an axis was turned against its own skewness while another was as little skew.
  EQUIGEO_HOST_DEVICE bool tied() const {
    double least = __builtin_inf();
    bool turned = false;
    for (int64_t k = 0; k < op.dim; ++k) {
      least = !null(k) && size(margin[k]) < least ? size(margin[k]) : least;
      turned |= margin[k] < 0;
    }
    int64_t equal = 0;
    for (int64_t k = 0; k < op.dim; ++k) {
      equal += !null(k) && within_error(size(margin[k]) - least, k);
    }
    return turned && equal > 1;
  }

  // Write the row; whether it has a flag.
  EQUIGEO_HOST_DEVICE bool judge() const {
    // Rounding of n points changes relative squares of spreads by a few noise (the sums are in
    // float64, so not by n of them); gaps up to 64 noise, six bits more than one, count as
    // none. Chosen, as in equigeo/ops/geometry/axis_flags.py.
    const double close = 64 * noise > op.gap_tol ? 64 * noise : op.gap_tol;
    const bool ruled = op.signs != Signs::kAsFound;
    bool flagged = false;
    for (int64_t k = 0; k + 1 < op.dim; ++k) {
      gap[k] = static_cast<T>(gap_below(k));
      degenerate[k] = ruled && gap_below(k) <= close && !null(k) && !null(k + 1);
      flagged |= degenerate[k];
    }
    const int64_t last = ruled && op.signs != Signs::kEach ? dependent() : -1;
    bool others = false;
    for (int64_t k = 0; k < op.dim; ++k) {
      ambiguous[k] = ruled && k != last && unclear(k);
      others |= ambiguous[k];
    }
    if (last >= 0 && !null(last)) {
      ambiguous[last] = others || (op.signs == Signs::kLeast && tied());
      others |= ambiguous[last];
    }
    return flagged || others;
  }
};

}  // namespace
}  // namespace equigeo
