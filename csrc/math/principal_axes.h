// One cloud: what is summed over its points, and what follows from the sums.
//
// Points come in packs, one in each lane, in float64. What the lanes have is added up in an order
// that never changes, before anything follows from it.
#pragma once

#include "args/principal_axes.h"
#include "math/symmetric_eigen.h"

namespace equigeo {
namespace {

// The weight of points that all weigh one.
struct Unweighted {
  template <class Pack>
  friend EQUIGEO_HOST_DEVICE Pack operator*(Unweighted, Pack x) {
    return x;
  }
};

// 2^e with e from -1021 to 1023.
EQUIGEO_HOST_DEVICE double power_of_two(int64_t exponent) {
  exponent = exponent < -1021 ? -1021 : exponent > 1023 ? 1023 : exponent;
  const uint64_t bits = static_cast<uint64_t>(exponent + 1023) << 52;
  double power;
  __builtin_memcpy(&power, &bits, sizeof(power));
  return power;
}

// A power of two above a positive number, at most twice as large.
EQUIGEO_HOST_DEVICE int64_t exponent_above(double x) {
  uint64_t bits;
  __builtin_memcpy(&bits, &x, sizeof(bits));
  return static_cast<int64_t>(bits >> 52) - 1022;
}

EQUIGEO_HOST_DEVICE double one_if_zero(double x) { return x == 0 ? 1 : x; }

EQUIGEO_HOST_DEVICE double larger(double a, double b) { return a > b ? a : b; }

// Points that do not count are zero in everything that is added up. Sums have no other members than
// packs, so that they can be taken for an array.

// Coordinates, as they are and relative to the origin.
template <class Pack, int D>
struct FirstSums {
  Pack sum[D] = {}, largest = {}, span = {};

  template <class Weight>
  EQUIGEO_HOST_DEVICE void add(const Pack (&x)[D], const Pack (&u)[D], Weight weight) {
    for (int k = 0; k < D; ++k) {
      const Pack size = magnitude(x[k]), distance = magnitude(u[k]);
      largest = size > largest ? size : largest;
      span = distance > span ? distance : span;
      sum[k] += weight * u[k];
    }
  }
};

template <class Pack, int D>
struct SecondSums {
  Pack scatter[D * (D + 1) / 2] = {};

  template <class Weight>
  EQUIGEO_HOST_DEVICE void add(const Pack (&u)[D], Weight weight) {
    for (int i = 0, at = 0; i < D; ++i) {
      const Pack weighted = weight * u[i];
      for (int j = 0; j <= i; ++j, ++at) {
        scatter[at] += weighted * u[j];
      }
    }
  }
};

// First and second moments at once, of points that have far fewer digits than the sums.
template <class Pack, int D>
struct Moments {
  Pack sum[D] = {}, scatter[D * (D + 1) / 2] = {};

  template <class Weight>
  EQUIGEO_HOST_DEVICE void add(const Pack (&u)[D], Weight weight) {
    for (int i = 0, at = 0; i < D; ++i) {
      const Pack weighted = weight * u[i];
      sum[i] += weighted;
      for (int j = 0; j <= i; ++j, ++at) {
        scatter[at] += weighted * u[j];
      }
    }
  }
};

template <class Pack, class Number, int D>
EQUIGEO_HOST_DEVICE Pack along(const Pack (&u)[D], const Number (&axis)[D]) {
  Pack y = u[0] * axis[0];
  for (int i = 1; i < D; ++i) {
    y += u[i] * axis[i];
  }
  return y;
}

// Coordinates along the axes.
template <class Pack, int D>
struct SquareSums {
  Pack square[D] = {};

  template <class Weight>
  EQUIGEO_HOST_DEVICE void add(const Pack (&y)[D], Weight weight) {
    for (int k = 0; k < D; ++k) {
      square[k] += weight * (y[k] * y[k]);
    }
  }
};

template <class Pack, int D>
struct CubeSums {
  Pack cube[D] = {}, size[D] = {};

  template <class Weight>
  EQUIGEO_HOST_DEVICE void add(const Pack (&y)[D], Weight weight) {
    for (int k = 0; k < D; ++k) {
      const Pack cubed = weight * (y[k] * y[k]) * y[k];
      cube[k] += cubed;
      size[k] += magnitude(cubed);
    }
  }
};

// What is known of a cloud; lengths are in units of `power`.
template <int D>
struct CloudAxes {
  static constexpr int kEntries = D * (D + 1) / 2;

  double origin[D], mean[D], power, inverse;
  double total, noise;
  bool finite;
  double axes[D][D];  // by axis
  bool null[D];
  double spread[D], margin[D], sign[D], size;  // sign: whether the axis was turned around
  double guess = 1, factor;  // of coordinates while signs are open, and in the result
  double correction;         // from one to the other

  EQUIGEO_HOST_DEVICE void begin(
      const FirstSums<double, D>& sums, double weight, bool center, double null_tol) {
    total = weight;
    see_whether_finite(sums.sum);
    const int64_t exponent = finite && sums.span > 0 ? exponent_above(sums.span) : 0;
    power = power_of_two(exponent);
    inverse = power_of_two(-exponent);
    noise = null_tol * sums.largest * inverse;
    find_mean(sums.sum, center);
  }

  // No square or cube of numbers of 32 bits is beyond the range of 64: these need no other unit.
  EQUIGEO_HOST_DEVICE void begin(
      const Moments<double, D>& sums,
      double largest,
      double weight,
      bool center,
      double null_tol,
      double (&scatter)[kEntries]) {
    total = weight;
    see_whether_finite(sums.sum);
    power = inverse = 1;
    noise = null_tol * largest;
    find_mean(sums.sum, center);
    for (int i = 0, at = 0; i < D; ++i) {
      for (int j = 0; j <= i; ++j, ++at) {
        scatter[at] = sums.scatter[at] - total * mean[i] * mean[j];
      }
    }
  }

  EQUIGEO_HOST_DEVICE void see_whether_finite(const double (&sum)[D]) {
    finite = true;
    for (int k = 0; k < D; ++k) {
      finite = finite && sum[k] * 0 == 0;  // NaN stays, and so does infinity
    }
  }

  EQUIGEO_HOST_DEVICE void find_mean(const double (&sum)[D], bool center) {
    for (int k = 0; k < D; ++k) {
      mean[k] = center ? sum[k] * inverse / one_if_zero(total) : 0;
    }
  }

  // Lane l of the eigenvectors of a scatter matrix, zero for a cloud that is not finite.
  template <class Pack>
  EQUIGEO_HOST_DEVICE void turn(const Eigen<Pack, D>& eigen, int l) {
    for (int k = 0; k < D; ++k) {
      for (int i = 0; i < D; ++i) {
        axes[k][i] = lane(eigen.vector[k] + i, 0, l);
      }
    }
  }

  // Sums of squared coordinates from eigenvalues, which are exact enough to recognize null axes
  // where points have far fewer digits than the eigenvalues; and a scale in which coordinates are
  // neither large nor small, that of the result where there is one.
  template <class Pack>
  EQUIGEO_HOST_DEVICE SquareSums<double, D> predict(
      const Eigen<Pack, D>& eigen, int l, Scale scale) {
    SquareSums<double, D> sums;
    for (int k = 0; k < D; ++k) {
      const double value = lane(eigen.value + k, 0, l);
      sums.square[k] = value > 0 ? value : 0;
      spread[k] = square_root(sums.square[k]);
    }
    const bool some = finite && spread[0] > 0;
    guess = !some                       ? 1
            : scale == Scale::kUnscaled ? power_of_two(-exponent_above(spread[0]))
                                        : 1 / size_of(scale);
    return sums;
  }

  // Cubes are of coordinates times the guess.
  EQUIGEO_HOST_DEVICE void finish(
      const SquareSums<double, D>& squares,
      const CubeSums<double, D>& cubes,
      Signs signs,
      Scale scale) {
    const double most_null = noise * noise * one_if_zero(total);
    bool dead = false, alive = false;
    for (int k = 0; k < D; ++k) {
      dead |= squares.square[k] <= most_null;  // and so are those that follow
      null[k] = dead;
      alive |= !dead;
      spread[k] = dead ? 0 : square_root(squares.square[k]);
      margin[k] = dead ? 0 : cubes.cube[k] / one_if_zero(cubes.size[k]);
      sign[k] = 1;
    }
    for (int k = 0; k < D && !alive; ++k) {
      for (int i = 0; i < D; ++i) {
        axes[k][i] = i == k;
      }
    }
    choose_signs(signs);
    if (scale == Scale::kUnscaled) {
      size = alive;
      factor = power;
    } else {
      size = size_of(scale);
      factor = 1 / one_if_zero(size);
      size *= power;
    }
    correction = factor / guess;
  }

  // What spreads are divided by.
  EQUIGEO_HOST_DEVICE double size_of(Scale scale) const {
    double square = 0;
    for (int k = 0; k < (scale == Scale::kFirst ? 1 : D); ++k) {
      square += spread[k] * spread[k];
    }
    const double pairs = total - 1 > 1 ? total - 1 : 1;
    const double share = scale == Scale::kPairs ? 2 / pairs : 1 / one_if_zero(total);
    return square_root(share * square);
  }

  EQUIGEO_HOST_DEVICE void choose_signs(Signs signs) {
    if (signs == Signs::kAsFound) {
      return;
    }
    for (int k = 0; k < D; ++k) {
      if (margin[k] < 0) {
        turn_around(k);
      }
    }
    if (signs == Signs::kEach || determinant() >= 0) {
      return;
    }
    int dependent = D - 1;
    for (int k = D - 1; k-- > 0 && !null[D - 1] && signs == Signs::kLeast;) {
      if (magnitude(margin[k]) < magnitude(margin[dependent])) {
        dependent = k;
      }
    }
    turn_around(dependent);
  }

  EQUIGEO_HOST_DEVICE void turn_around(int k) {
    margin[k] = -margin[k];
    sign[k] = -sign[k];
    for (int i = 0; i < D; ++i) {
      axes[k][i] = -axes[k][i];
    }
  }

  EQUIGEO_HOST_DEVICE double determinant() const {
    if constexpr (D == 1) {
      return axes[0][0];
    } else if constexpr (D == 2) {
      return axes[0][0] * axes[1][1] - axes[0][1] * axes[1][0];
    } else {
      return axes[0][0] * (axes[1][1] * axes[2][2] - axes[1][2] * axes[2][1]) -
             axes[0][1] * (axes[1][0] * axes[2][2] - axes[1][2] * axes[2][0]) +
             axes[0][2] * (axes[1][0] * axes[2][1] - axes[1][1] * axes[2][0]);
    }
  }

  // What centred points are multiplied by.
  EQUIGEO_HOST_DEVICE void projection(double (&matrix)[D][D]) const {
    for (int k = 0; k < D; ++k) {
      for (int i = 0; i < D; ++i) {
        matrix[k][i] = null[k] ? 0 : axes[k][i] * factor;
      }
    }
  }

  // The axes before it is known which of them turn around.
  EQUIGEO_HOST_DEVICE void guessed_projection(double (&matrix)[D][D]) const {
    for (int k = 0; k < D; ++k) {
      for (int i = 0; i < D; ++i) {
        matrix[k][i] = axes[k][i] * guess;
      }
    }
  }

  // What guessed coordinates along an axis are multiplied by.
  EQUIGEO_HOST_DEVICE double correction_of(int k) const {
    return null[k] ? poison() : sign[k] * correction + poison();
  }

  // NaN for a cloud that is not finite, else 0.
  EQUIGEO_HOST_DEVICE double poison() const { return finite ? 0.0 : __builtin_nan(""); }

  template <class T>
  EQUIGEO_HOST_DEVICE void store(const PrincipalAxes<T>& op, int64_t cloud) const {
    const double bad = poison();
    for (int k = 0; k < D; ++k) {
      const int64_t at = cloud * D + k;
      const double place = op.center && total > 0 ? origin[k] + power * mean[k] : 0;
      op.centroid[at] = static_cast<T>(place + bad);
      op.spread[at] = static_cast<T>(spread[k] * power + bad);
      op.margin[at] = static_cast<T>(margin[k] + bad);
      for (int i = 0; i < D; ++i) {
        op.frame[(cloud * D + i) * D + k] = static_cast<T>(axes[k][i] + bad);
      }
    }
    op.size[cloud] = static_cast<T>(size + bad);
  }
};

// Sums of gradients and of their products with coordinates.
template <class Pack, int D>
struct GradientSums {
  Pack total = {}, moment[D][D] = {}, of_y[D] = {}, of_grad[D] = {}, y_sum[D] = {},
       grad_sum[D] = {};

  EQUIGEO_HOST_DEVICE void add(const Pack (&y)[D], const Pack (&grad)[D], Pack weight) {
    total += weight;
    for (int i = 0; i < D; ++i) {
      of_y[i] += y[i] * y[i];
      of_grad[i] += grad[i] * grad[i];
      y_sum[i] += weight * y[i];
      grad_sum[i] += grad[i];
      for (int j = 0; j < D; ++j) {
        moment[i][j] += y[i] * grad[j];
      }
    }
  }
};

// The gradient of a point is grad * direct + weight * (y * turned + drift).
template <int D>
struct CloudGradient {
  double direct[D][D], turned[D][D], drift[D];

  template <class T>
  EQUIGEO_HOST_DEVICE void find(
      const GradientSums<double, D>& sums, const PrincipalAxesBackward<T>& op, int64_t cloud) {
    const T* spread = op.spread + cloud * D;
    const T* frame = op.frame + cloud * D * D;
    const double size = one_if_zero(op.size[cloud]), first = one_if_zero(spread[0]);
    const double total = sums.total, weight = one_if_zero(total);
    double moment[D][D], noise[D][D], trace = 0;
    for (int i = 0; i < D; ++i) {
      const double length = square_root(sums.of_y[i]) / first;
      for (int j = 0; j < D; ++j) {
        const bool alive = spread[j] > 0;
        double of_frame = 0;
        for (int k = 0; k < D; ++k) {
          of_frame +=
              static_cast<double>(frame[k * D + i]) * op.grad_frame[(cloud * D + k) * D + j];
        }
        of_frame /= first;
        const double of_y = alive ? sums.moment[i][j] / first : 0;
        trace += i == j ? of_y * first : 0;
        moment[i][j] = of_y + of_frame;
        noise[i][j] = magnitude(of_frame) + (alive ? length * square_root(sums.of_grad[j]) : 0);
      }
    }
    const double along = (op.grad_size[cloud] - trace / size);
    const double pairs = total - 1 > 1 ? total - 1 : 1;
    const double share = op.scale == Scale::kPairs ? 2 / pairs : 1 / weight;
    double matrix[D][D];
    for (int i = 0; i < D; ++i) {
      for (int j = 0; j < D; ++j) {
        matrix[i][j] = slope(
            moment[i][j] - moment[j][i], noise[i][j] + noise[j][i], spread[i] / first,
            spread[j] / first, op);
      }
      const bool counts = op.scale != Scale::kUnscaled && (i == 0 || op.scale != Scale::kFirst);
      const double of_size = counts ? share * (spread[i] / size) * along : 0;
      if (spread[i] > 0) {
        matrix[i][i] += (op.grad_spread[cloud * D + i] + of_size) * (first / spread[i]);
      }
    }
    for (int i = 0; i < D; ++i) {
      for (int k = 0; k < D; ++k) {
        direct[i][k] = spread[i] > 0 ? frame[k * D + i] / size : 0;
        turned[i][k] = 0;
        for (int j = 0; j < D; ++j) {
          turned[i][k] += matrix[i][j] * (size / first) * frame[k * D + j];
        }
      }
    }
    for (int k = 0; k < D; ++k) {
      double sum = 0;
      for (int i = 0; i < D; ++i) {
        sum += sums.grad_sum[i] * direct[i][k] + sums.y_sum[i] * turned[i][k];
      }
      drift[k] = op.center ? (op.grad_centroid[cloud * D + k] - sum) / weight : 0;
    }
  }

  // How two axes turn into each other, as smooth as is wanted where their spreads are equal.
  template <class T>
  EQUIGEO_HOST_DEVICE static double slope(
      double torque, double noise, double one, double other, const PrincipalAxesBackward<T>& op) {
    const double gap = other * other - one * one;
    const double square = gap * gap + op.smoothing * op.smoothing;
    const bool felt = magnitude(torque) > op.rounding * noise;
    return felt && square > 0 ? torque * gap / square : 0;
  }

  template <class Pack>
  EQUIGEO_HOST_DEVICE void apply(
      const Pack (&y)[D], const Pack (&grad)[D], Pack weight, Pack (&out)[D]) const {
    const Pack zero = weight * 0;
    for (int k = 0; k < D; ++k) {
      Pack own = zero, shared = zero + drift[k];
      for (int i = 0; i < D; ++i) {
        own += grad[i] * direct[i][k];
        shared += y[i] * turned[i][k];
      }
      out[k] = weight > 0 ? own + weight * shared : zero;
    }
  }
};

}  // namespace
}  // namespace equigeo
