// Eigenvalues and eigenvectors of symmetric matrices with at most three rows, one in each lane of
// a pack of float64.
//
// Three cross products, one for each eigenvalue, lose orthogonality where two of them are equal.
// Here one comes from a cross product, that of the eigenvalue which is far from both others, and
// the two others from a rotation of its complement. Nothing branches.
#pragma once

#include "math/square_root.h"

namespace equigeo {
namespace {

// Lane l of pack n of an array of packs.
template <class Pack>
EQUIGEO_HOST_DEVICE double& lane(Pack* packs, int n, int l) {
  return reinterpret_cast<double*>(packs)[n * kWidth<Pack, double> + l];
}

template <class Pack>
EQUIGEO_HOST_DEVICE double lane(const Pack* packs, int n, int l) {
  return reinterpret_cast<const double*>(packs)[n * kWidth<Pack, double> + l];
}

template <class Pack>
EQUIGEO_HOST_DEVICE Pack pack_of(double x) {
  return Pack{} + x;
}

// Descending eigenvalues; vector[k] belongs to value[k].
template <class Pack, int D>
struct Eigen {
  Pack value[D], vector[D][D];

  EQUIGEO_HOST_DEVICE void order(int i, int j) {
    const auto wrong = value[i] < value[j];
    const Pack held = value[i];
    value[i] = wrong ? value[j] : held;
    value[j] = wrong ? held : value[j];
    for (int k = 0; k < D; ++k) {
      const Pack one = vector[i][k];
      vector[i][k] = wrong ? vector[j][k] : one;
      vector[j][k] = wrong ? one : vector[j][k];
    }
  }

  EQUIGEO_HOST_DEVICE void sort() {
    for (int pass = 0; pass + 1 < D; ++pass) {
      for (int i = 0; i + 1 < D - pass; ++i) {
        order(i, i + 1);
      }
    }
  }

  // Turn each vector around so that its component of largest magnitude is positive.
  EQUIGEO_HOST_DEVICE void fix_signs() {
    for (int k = 0; k < D; ++k) {
      Pack most = vector[k][0];
      for (int i = 1; i < D; ++i) {
        most = magnitude(vector[k][i]) > magnitude(most) ? vector[k][i] : most;
      }
      const Pack sign = most < 0 ? pack_of<Pack>(-1) : pack_of<Pack>(1);
      for (int i = 0; i < D; ++i) {
        vector[k][i] *= sign;
      }
    }
  }
};

// The rotation (cosine, sine) that diagonalises [[a, b], [b, c]], by at most 45 degrees.
template <class Pack>
struct Rotation {
  Pack cosine, sine, tangent;
};

template <class Pack>
EQUIGEO_HOST_DEVICE Rotation<Pack> diagonalising(Pack a, Pack b, Pack c) {
  // tan = 2 b / (d + sign(d) sqrt(d^2 + 4 b^2)), which divides by zero only where b is.
  const Pack difference = c - a, twice = 2 * b;
  const Pack root = square_root(difference * difference + twice * twice);
  const Pack below = difference < 0 ? difference - root : difference + root;
  const auto none = below == 0;
  const Pack tangent = none ? Pack{} : twice / (none ? pack_of<Pack>(1) : below);
  const Pack cosine = 1 / square_root(1 + tangent * tangent);
  return {cosine, tangent * cosine, tangent};
}

// Entries (i, j) with j <= i are at i (i + 1) / 2 + j.
template <class Pack>
EQUIGEO_HOST_DEVICE void solve(const Pack (&a)[1], Eigen<Pack, 1>& out) {
  out.value[0] = a[0];
  out.vector[0][0] = pack_of<Pack>(1);
}

template <class Pack>
EQUIGEO_HOST_DEVICE void solve(const Pack (&a)[3], Eigen<Pack, 2>& out) {
  const Rotation<Pack> r = diagonalising(a[0], a[1], a[2]);
  out.value[0] = a[0] - r.tangent * a[1];
  out.value[1] = a[2] + r.tangent * a[1];
  out.vector[0][0] = r.cosine;
  out.vector[0][1] = -r.sine;
  out.vector[1][0] = r.sine;
  out.vector[1][1] = r.cosine;
  out.sort();
}

// cos(acos(r) / 3) for r from 0 to 1, the largest root of 4 c^3 - 3 c = r.
template <class Pack>
EQUIGEO_HOST_DEVICE Pack third_of_angle(Pack r) {
  constexpr double kLeast = 0.8660254037844386;  // cos(pi / 6), the value at r = 0
  // The line between both ends and a parabola that vanishes there; 0.03 leaves errors up to 1e-3.
  Pack c = kLeast + r * ((1 - kLeast) + 0.03 * (1 - r));
  for (int step = 0; step < 4; ++step) {  // the error is squared each time, from 1e-3
    c -= ((4 * c * c - 3) * c - r) / (12 * c * c - 3);
  }
  return c;
}

// The longest of the cross products of two rows of `a`, normalised.
template <class Pack>
EQUIGEO_HOST_DEVICE void null_vector(const Pack (&a)[6], Pack (&v)[3]) {
  const Pack rows[3][3] = {{a[0], a[1], a[3]}, {a[1], a[2], a[4]}, {a[3], a[4], a[5]}};
  Pack longest = {};
  v[0] = pack_of<Pack>(1);
  v[1] = v[2] = Pack{};
  for (int k = 0; k < 3; ++k) {
    const Pack* p = rows[k];
    const Pack* q = rows[(k + 1) % 3];
    const Pack x = p[1] * q[2] - p[2] * q[1];
    const Pack y = p[2] * q[0] - p[0] * q[2];
    const Pack z = p[0] * q[1] - p[1] * q[0];
    const Pack square = x * x + y * y + z * z;
    const auto longer = square > longest;
    longest = longer ? square : longest;
    v[0] = longer ? x : v[0];
    v[1] = longer ? y : v[1];
    v[2] = longer ? z : v[2];
  }
  const Pack inverse = 1 / square_root(longest > 0 ? longest : pack_of<Pack>(1));
  for (int k = 0; k < 3; ++k) {
    v[k] *= inverse;
  }
}

template <class Pack>
EQUIGEO_HOST_DEVICE Pack form(const Pack (&a)[6], const Pack* p, const Pack* q) {
  return p[0] * (a[0] * q[0] + a[1] * q[1] + a[3] * q[2]) +
         p[1] * (a[1] * q[0] + a[2] * q[1] + a[4] * q[2]) +
         p[2] * (a[3] * q[0] + a[4] * q[1] + a[5] * q[2]);
}

template <class Pack>
EQUIGEO_HOST_DEVICE Pack inverse_or_zero(Pack x) {
  const auto some = x > 0;
  return some ? 1 / (some ? x : pack_of<Pack>(1)) : Pack{};
}

// A matrix without its mean eigenvalue, divided by the root mean square of the others.
template <class Pack>
struct Standardised {
  Pack unit, mean, size;  // eigenvalues are unit * (mean + size * those of `entry`)
  Pack entry[6];

  EQUIGEO_HOST_DEVICE explicit Standardised(const Pack (&a)[6]) : unit{} {
    for (int k = 0; k < 6; ++k) {
      const Pack length = magnitude(a[k]);
      unit = length > unit ? length : unit;
    }
    const Pack power = inverse_or_zero(unit);
    for (int k = 0; k < 6; ++k) {
      entry[k] = a[k] * power;
    }
    mean = (entry[0] + entry[2] + entry[5]) / 3;
    Pack square = {};
    for (int k = 0; k < 6; ++k) {
      const bool diagonal = k == 0 || k == 2 || k == 5;
      entry[k] = diagonal ? entry[k] - mean : entry[k];
      square += (diagonal ? 1.0 : 2.0) * entry[k] * entry[k];
    }
    size = square_root(square / 6);
    const Pack inverse = inverse_or_zero(size);
    for (int k = 0; k < 6; ++k) {
      entry[k] *= inverse;
    }
  }
};

// Two vectors that make an orthonormal basis with v: one in a plane of coordinates, and the cross
// product.
template <class Pack>
EQUIGEO_HOST_DEVICE void complete(const Pack (&v)[3], Pack (&u)[3], Pack (&w)[3]) {
  const auto flat = magnitude(v[0]) > magnitude(v[2]);
  const Pack inverse = 1 / square_root(v[1] * v[1] + (flat ? v[0] * v[0] : v[2] * v[2]));
  u[0] = flat ? -v[1] * inverse : Pack{};
  u[1] = (flat ? v[0] : -v[2]) * inverse;
  u[2] = flat ? Pack{} : v[1] * inverse;
  w[0] = v[1] * u[2] - v[2] * u[1];
  w[1] = v[2] * u[0] - v[0] * u[2];
  w[2] = v[0] * u[1] - v[1] * u[0];
}

template <class Pack>
EQUIGEO_HOST_DEVICE void solve(const Pack (&given)[6], Eigen<Pack, 3>& out) {
  const Standardised<Pack> a(given);
  const Pack(&b)[6] = a.entry;
  const Pack half = 0.5 * (b[0] * (b[2] * b[5] - b[4] * b[4]) - b[1] * (b[1] * b[5] - b[4] * b[3]) +
                           b[3] * (b[1] * b[4] - b[2] * b[3]));
  const Pack one = pack_of<Pack>(1), size = magnitude(half);
  const Pack apart = (half < 0 ? -2 * one : 2 * one) * third_of_angle<Pack>(size < 1 ? size : one);

  const Pack shifted[6] = {b[0] - apart, b[1], b[2] - apart, b[3], b[4], b[5] - apart};
  Pack(&v)[3] = out.vector[0];
  null_vector(shifted, v);
  Pack u[3], w[3];
  complete(v, u, w);
  const Pack uu = form(b, u, u), uw = form(b, u, w), ww = form(b, w, w);
  const Rotation<Pack> r = diagonalising(uu, uw, ww);
  for (int k = 0; k < 3; ++k) {
    out.vector[1][k] = r.cosine * u[k] - r.sine * w[k];
    out.vector[2][k] = r.sine * u[k] + r.cosine * w[k];
  }
  const Pack values[3] = {form<Pack>(b, v, v), uu - r.tangent * uw, ww + r.tangent * uw};
  for (int k = 0; k < 3; ++k) {
    out.value[k] = (a.mean + a.size * values[k]) * a.unit;
  }
  out.sort();
}

}  // namespace
}  // namespace equigeo
