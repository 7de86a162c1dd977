// Real spherical harmonics of one point, or of one point in each lane, and their derivatives.
//
// Y_l^m and Y_l^-m are Q_l^m(y, r^2) times the real and the imaginary part of (z + i x)^m. All
// orders are independent of one another, and within an order the recursion over degrees needs the
// last two: nothing but the result is ever stored. With the column of the next order beside it,
//
//   d/dy Q_l^m = along Q_{l-1}^m,   d/dx Q_l^m = raise x Q_{l-1}^{m+1},   and z like x.
#pragma once

#include "args/spherical_harmonics.h"
#include "math/dual.h"
#include "math/square_root.h"

namespace equigeo {
namespace {

template <class N>
struct Vector {
  N x, y, z;
};

template <class N>
EQUIGEO_HOST_DEVICE N dot(const Vector<N>& a, const Vector<N>& b) {
  return a.x * b.x + a.y * b.y + a.z * b.z;
}

// --- Directions of vectors

template <class T>
struct Exponent;
template <>
struct Exponent<float> {
  static constexpr int kMantissa = 23, kBias = 127;
};
template <>
struct Exponent<double> {
  static constexpr int kMantissa = 52, kBias = 1023;
};

template <class Pack>
EQUIGEO_HOST_DEVICE Pack larger(Pack a, Pack b) {
  return a > b ? a : b;
}

// The power of two that brings a number to about one, so that squares stay in range.
template <class Pack>
EQUIGEO_HOST_DEVICE Pack inverse_exponent(Pack positive) {
  using Constants = Exponent<typename Lanes<Pack>::Scalar>;
  using Bits = typename Lanes<Pack>::Bits;
  Bits bits;
  __builtin_memcpy(&bits, &positive, sizeof(Pack));
  const Bits one = Bits{} + 1, top = Bits{} + (2 * Constants::kBias - 1);
  const Bits exponent = bits >> Constants::kMantissa;
  const Bits most = top - one;
  bits = (top - (exponent < most ? exponent : most)) << Constants::kMantissa;
  Pack power;
  __builtin_memcpy(&power, &bits, sizeof(Pack));
  return power;
}

template <class N>
struct Direction {
  Vector<N> unit;
  N inverse;  // of the length
};

// Divide by the length. Zero stays zero, as if of length one.
template <class Pack>
EQUIGEO_HOST_DEVICE Direction<Pack> direction(const Vector<Pack>& v) {
  const Pack zero = {}, one = number<Pack>(1);
  const Pack largest = larger(larger(magnitude(v.x), magnitude(v.y)), magnitude(v.z));
  const Pack power = inverse_exponent(largest);
  const Vector<Pack> scaled = {power * v.x, power * v.y, power * v.z};
  const Pack square = dot(scaled, scaled);
  const Pack root = one / square_root(square == zero ? one : square);
  return {{root * scaled.x, root * scaled.y, root * scaled.z}, square == zero ? one : power * root};
}

// The same with the derivative along a vector.
template <class Pack>
EQUIGEO_HOST_DEVICE Direction<Dual<Pack>> direction(
    const Vector<Pack>& v, const Vector<Pack>& along) {
  const Direction<Pack> at = direction(v);
  const Vector<Pack> u = at.unit;
  const Pack radial = dot(u, along);
  return {
      {{u.x, at.inverse * (along.x - u.x * radial)},
       {u.y, at.inverse * (along.y - u.y * radial)},
       {u.z, at.inverse * (along.z - u.z * radial)}},
      {at.inverse, -at.inverse * (at.inverse * radial)}};
}

// A gradient by the direction, as one by the vector.
template <class N>
EQUIGEO_HOST_DEVICE Vector<N> project(const Direction<N>& at, const Vector<N>& slope) {
  const N radial = dot(at.unit, slope);
  return {
      at.inverse * (slope.x - at.unit.x * radial), at.inverse * (slope.y - at.unit.y * radial),
      at.inverse * (slope.z - at.unit.z * radial)};
}

// --- Harmonics

// Real and imaginary part of (z + i x)^m and of the power before.
template <class N>
struct Azimuth {
  N re, im, re_before, im_before;
};

// Call visit.open(m, azimuth), visit(l, Q_l^m, Q_{l-1}^m, Q_{l-1}^{m+1}) for l = m, m + 1, ..., and
// visit.close(m, azimuth). Returns the azimuth of the next order.
template <class N, class T, class Visit>
EQUIGEO_HOST_DEVICE Azimuth<N> visit_order(
    int64_t m,
    const HarmonicsTable<T>& table,
    const Vector<N>& u,
    const N& square,
    const Azimuth<N>& azimuth,
    Visit& visit) {
  const int64_t column = m * table.size, next = column + table.size;
  N q = number<N>(table.start[column + m]), before = {};
  N raised = {}, raised_before = {};  // Q_l^{m+1} and Q_{l-1}^{m+1}
  // First steps have no second term: its factor is zero, not the square, which may be infinite.
  N factor = {}, raised_factor = {};
  visit.open(m, azimuth);
  for (int64_t l = m; l <= table.lmax; ++l) {
    visit(l, q, before, raised_before);
    if (l == table.lmax) {
      break;
    }
    const int64_t k = l + 1;
    N q_above = (table.up[column + k] * u.y) * q;
    if (l > m) {
      q_above = q_above - (table.down[column + k] * square) * before;
    }
    before = q;
    q = q_above;
    const N raised_above = l == m ? number<N>(table.start[next + k])
                                  : (table.up[next + k] * u.y) * raised -
                                        (table.down[next + k] * raised_factor) * raised_before;
    raised_before = raised;
    raised = raised_above;
    raised_factor = factor;
    factor = square;
  }
  visit.close(m, azimuth);
  if (m == 0) {
    return {u.z, u.x, azimuth.re, azimuth.im};
  }
  return {
      u.z * azimuth.re - u.x * azimuth.im, u.x * azimuth.re + u.z * azimuth.im, azimuth.re,
      azimuth.im};
}

// All orders.
template <class N, class T, class Visit>
EQUIGEO_HOST_DEVICE void visit_harmonics(
    const HarmonicsTable<T>& table, const Vector<N>& u, Visit& visit) {
  const N square = dot(u, u);
  Azimuth<N> azimuth = {number<N>(T(1)), N{}, N{}, N{}};
  for (int64_t m = 0; m <= table.lmax; ++m) {
    azimuth = visit_order(m, table, u, square, azimuth, visit);
  }
}

// Writes the harmonics of one point, or of one point per lane; columns are then a pack apart.
template <class N, class T>
struct Evaluate {
  const int32_t* center;
  T* out;
  int64_t m;
  N re, im;

  EQUIGEO_HOST_DEVICE void open(int64_t order, const Azimuth<N>& azimuth) {
    m = order;
    re = azimuth.re;
    im = azimuth.im;
  }

  EQUIGEO_HOST_DEVICE void operator()(int64_t l, N q, N /*before*/, N /*raised*/) const {
    constexpr int64_t kStep = kWidth<N, T>;
    if (center[l] >= 0) {
      Memory<N, T>::store(out + (center[l] + m) * kStep, q * re);
      if (m > 0) {
        Memory<N, T>::store(out + (center[l] - m) * kStep, q * im);
      }
    }
  }

  EQUIGEO_HOST_DEVICE void close(int64_t, const Azimuth<N>&) const {}
};

// Adds up the gradient by the vector of sum_j grad_j Y_j. With dual numbers also writes the
// derivative of the harmonics to `slopes`, which may be where `grad` is.
template <class N, class T>
struct Differentiate {
  using Pack = typename NumberOf<N>::Value;

  const HarmonicsTable<T>& table;
  const int32_t* center;
  const Vector<N>& u;
  const T* grad;
  T* slopes;
  int64_t m;
  N re, im;
  N re_sum, im_sum;  // of gradients times Q
  N slope_y, slope_square;
  Vector<N> sum;

  EQUIGEO_HOST_DEVICE void open(int64_t order, const Azimuth<N>& azimuth) {
    m = order;
    re = azimuth.re;
    im = azimuth.im;
    re_sum = im_sum = N{};
  }

  EQUIGEO_HOST_DEVICE void operator()(int64_t l, N q, N before, N raised) {
    constexpr int64_t kStep = kWidth<Pack, T>;
    if (center[l] < 0) {
      return;
    }
    const int64_t entry = m * table.size + l;
    const int64_t plus = (center[l] + m) * kStep, minus = (center[l] - m) * kStep;
    const Pack grad_re = Memory<Pack, T>::load(grad + plus);
    N both = grad_re * re;
    re_sum = re_sum + grad_re * q;
    write(plus, q * re);
    if (m > 0) {
      const Pack grad_im = Memory<Pack, T>::load(grad + minus);
      both = both + grad_im * im;
      im_sum = im_sum + grad_im * q;
      write(minus, q * im);
    }
    if (l > m) {  // else `before` is zero, and `raised` in the next degree, too
      slope_y = slope_y + (table.along[entry] * before) * both;
    }
    if (l > m + 1) {
      slope_square = slope_square + (table.raise[entry] * raised) * both;
    }
  }

  EQUIGEO_HOST_DEVICE void close(int64_t order, const Azimuth<N>& azimuth) {
    if (order == 0) {
      return;
    }
    const T factor = static_cast<T>(order);
    const N x = im_sum * azimuth.re_before - re_sum * azimuth.im_before;
    const N z = re_sum * azimuth.re_before + im_sum * azimuth.im_before;
    sum = {sum.x + factor * x, sum.y, sum.z + factor * z};
  }

  EQUIGEO_HOST_DEVICE Vector<N> gradient() const {
    if (table.lmax < 2) {  // nothing depends on the square
      return {sum.x, slope_y, sum.z};
    }
    return {sum.x + u.x * slope_square, slope_y, sum.z + u.z * slope_square};
  }

 private:
  EQUIGEO_HOST_DEVICE void write(int64_t, Pack) const {}
  EQUIGEO_HOST_DEVICE void write(int64_t at, Dual<Pack> value) const {
    Memory<Pack, T>::store(slopes + at, value.slope);
  }
};

template <class N, class T>
EQUIGEO_HOST_DEVICE Vector<N> gradient(
    const HarmonicsTable<T>& table,
    const int32_t* center,
    const Vector<N>& u,
    const T* grad,
    T* slopes) {
  Differentiate<N, T> visit{table, center, u, grad, slopes, 0, {}, {}, {}, {}, {}, {}, {}};
  visit_harmonics(table, u, visit);
  return visit.gradient();
}

// --- The ops at a point, or at one point per lane

// Writes (dim) harmonics.
template <class Op, class Pack, class T>
EQUIGEO_HOST_DEVICE void harmonics(const Op& op, const Vector<Pack>& x, T* out) {
  const Vector<Pack> u = op.normalize ? direction(x).unit : x;
  Evaluate<Pack, T> visit{op.center, out, 0, {}, {}};
  visit_harmonics(op.table, u, visit);
}

// The gradient of sum_j grad_j Y_j.
template <class Op, class Pack, class T>
EQUIGEO_HOST_DEVICE Vector<Pack> harmonics_backward(
    const Op& op, const Vector<Pack>& x, const T* grad) {
  if (!op.normalize) {
    return gradient<Pack, T>(op.table, op.center, x, grad, nullptr);
  }
  const Direction<Pack> at = direction(x);
  return project(at, gradient<Pack, T>(op.table, op.center, at.unit, grad, nullptr));
}

// The derivative of that gradient along a vector; writes the derivative of the harmonics.
template <class Op, class Pack, class T>
EQUIGEO_HOST_DEVICE Vector<Pack> harmonics_double_backward(
    const Op& op, const Vector<Pack>& x, const Vector<Pack>& along, const T* grad, T* slopes) {
  using N = Dual<Pack>;
  Vector<N> by_x;
  if (op.normalize) {
    const Direction<N> at = direction(x, along);
    by_x = project(at, gradient<N, T>(op.table, op.center, at.unit, grad, slopes));
  } else {
    const Vector<N> u = {{x.x, along.x}, {x.y, along.y}, {x.z, along.z}};
    by_x = gradient<N, T>(op.table, op.center, u, grad, slopes);
  }
  return {by_x.x.slope, by_x.y.slope, by_x.z.slope};
}

}  // namespace
}  // namespace equigeo
