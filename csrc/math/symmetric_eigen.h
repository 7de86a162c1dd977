// Eigenvalues and eigenvectors of one symmetric matrix with at most three rows.
//
// Three cross products, one for each eigenvalue, lose orthogonality where two of them are equal.
// Here one comes from a cross product, that of the eigenvalue which is far from both others, and
// the two others from a rotation of its complement.
#pragma once

#include "math/host_device.h"

namespace equigeo {
namespace {

EQUIGEO_HOST_DEVICE double square_root(double x) {
#ifdef __CUDACC__
  return ::sqrt(x);
#else
  return __builtin_sqrt(x);
#endif
}

EQUIGEO_HOST_DEVICE double magnitude(double x) { return x < 0 ? -x : x; }

// Descending eigenvalues; vector[k] belongs to value[k].
template <int D>
struct Eigen {
  double value[D], vector[D][D];

  EQUIGEO_HOST_DEVICE void set_identity(double all) {
    for (int i = 0; i < D; ++i) {
      value[i] = all;
      for (int j = 0; j < D; ++j) {
        vector[i][j] = i == j;
      }
    }
  }

  EQUIGEO_HOST_DEVICE void exchange(int i, int j) {
    const double held = value[i];
    value[i] = value[j];
    value[j] = held;
    for (int k = 0; k < D; ++k) {
      const double one = vector[i][k];
      vector[i][k] = vector[j][k];
      vector[j][k] = one;
    }
  }

  EQUIGEO_HOST_DEVICE void sort() {
    for (int pass = 0; pass + 1 < D; ++pass) {
      for (int i = 0; i + 1 < D - pass; ++i) {
        if (value[i] < value[i + 1]) {
          exchange(i, i + 1);
        }
      }
    }
  }
};

// The rotation (cosine, sine) that diagonalises [[a, b], [b, c]], by at most 45 degrees.
struct Rotation {
  double cosine, sine, tangent;
};

EQUIGEO_HOST_DEVICE Rotation diagonalising(double a, double b, double c) {
  if (b == 0) {
    return {1, 0, 0};
  }
  // A square that overflows leaves a rotation by nothing, as it should.
  const double theta = (c - a) / (2 * b);
  const double size = 1 / (magnitude(theta) + square_root(1 + theta * theta));
  const double tangent = theta < 0 ? -size : size;
  const double cosine = 1 / square_root(1 + tangent * tangent);
  return {cosine, tangent * cosine, tangent};
}

// Entries (i, j) with j <= i are at i (i + 1) / 2 + j.
EQUIGEO_HOST_DEVICE void solve(const double (&a)[1], Eigen<1>& out) { out.set_identity(a[0]); }

EQUIGEO_HOST_DEVICE void solve(const double (&a)[3], Eigen<2>& out) {
  const Rotation r = diagonalising(a[0], a[1], a[2]);
  out.value[0] = a[0] - r.tangent * a[1];
  out.value[1] = a[2] + r.tangent * a[1];
  out.vector[0][0] = r.cosine;
  out.vector[0][1] = -r.sine;
  out.vector[1][0] = r.sine;
  out.vector[1][1] = r.cosine;
  out.sort();
}

// cos(acos(r) / 3) for r from 0 to 1, the largest root of 4 c^3 - 3 c = r.
EQUIGEO_HOST_DEVICE double third_of_angle(double r) {
  constexpr double kLeast = 0.8660254037844386;
  double c = kLeast + r * ((1 - kLeast) + 0.03 * (1 - r));
  for (int step = 0; step < 4; ++step) {  // the error is squared each time, from 1e-3
    c -= ((4 * c * c - 3) * c - r) / (12 * c * c - 3);
  }
  return c;
}

// The longest of the cross products of two rows of `a`, normalised.
EQUIGEO_HOST_DEVICE void null_vector(const double (&a)[6], double (&v)[3]) {
  const double rows[3][3] = {{a[0], a[1], a[3]}, {a[1], a[2], a[4]}, {a[3], a[4], a[5]}};
  double longest = 0;
  v[0] = 1;
  v[1] = v[2] = 0;
  for (int k = 0; k < 3; ++k) {
    const double* p = rows[k];
    const double* q = rows[(k + 1) % 3];
    const double x = p[1] * q[2] - p[2] * q[1];
    const double y = p[2] * q[0] - p[0] * q[2];
    const double z = p[0] * q[1] - p[1] * q[0];
    const double square = x * x + y * y + z * z;
    if (square > longest) {
      longest = square;
      v[0] = x;
      v[1] = y;
      v[2] = z;
    }
  }
  const double inverse = longest > 0 ? 1 / square_root(longest) : 1;
  for (int k = 0; k < 3; ++k) {
    v[k] *= inverse;
  }
}

EQUIGEO_HOST_DEVICE double form(const double (&a)[6], const double* p, const double* q) {
  return p[0] * (a[0] * q[0] + a[1] * q[1] + a[3] * q[2]) +
         p[1] * (a[1] * q[0] + a[2] * q[1] + a[4] * q[2]) +
         p[2] * (a[3] * q[0] + a[4] * q[1] + a[5] * q[2]);
}

// The matrix without its mean eigenvalue, divided by the root mean square of the others; returns
// that, or 0 where nothing is left.
EQUIGEO_HOST_DEVICE double standardise(const double (&a)[6], double mean, double (&b)[6]) {
  b[0] = a[0] - mean;
  b[1] = a[1];
  b[2] = a[2] - mean;
  b[3] = a[3];
  b[4] = a[4];
  b[5] = a[5] - mean;
  const double diagonal = b[0] * b[0] + b[2] * b[2] + b[5] * b[5];
  const double size = square_root((diagonal + 2 * (b[1] * b[1] + b[3] * b[3] + b[4] * b[4])) / 6);
  for (int k = 0; k < 6 && size > 0; ++k) {
    b[k] /= size;
  }
  return size;
}

EQUIGEO_HOST_DEVICE void solve(const double (&given)[6], Eigen<3>& out) {
  double largest = 0;
  for (int k = 0; k < 6; ++k) {
    largest = magnitude(given[k]) > largest ? magnitude(given[k]) : largest;
  }
  if (largest == 0) {
    return out.set_identity(0);
  }
  double a[6], b[6];
  for (int k = 0; k < 6; ++k) {
    a[k] = given[k] / largest;
  }
  const double mean = (a[0] + a[2] + a[5]) / 3;
  const double size = standardise(a, mean, b);
  if (!(size > 0)) {
    return out.set_identity(mean * largest);
  }
  double half = 0.5 * (b[0] * (b[2] * b[5] - b[4] * b[4]) - b[1] * (b[1] * b[5] - b[4] * b[3]) +
                       b[3] * (b[1] * b[4] - b[2] * b[3]));
  const double side = half < 0 ? -1 : 1;
  half = side * half < 1 ? side * half : 1;
  const double apart = 2 * side * third_of_angle(half);

  double shifted[6] = {b[0] - apart, b[1], b[2] - apart, b[3], b[4], b[5] - apart};
  double (&v)[3] = out.vector[0];
  null_vector(shifted, v);
  // Orthogonal to v: a unit vector of a plane of coordinates, and the cross product.
  double u[3], w[3];
  if (magnitude(v[0]) > magnitude(v[2])) {
    const double inverse = 1 / square_root(v[0] * v[0] + v[1] * v[1]);
    u[0] = -v[1] * inverse;
    u[1] = v[0] * inverse;
    u[2] = 0;
  } else {
    const double inverse = 1 / square_root(v[1] * v[1] + v[2] * v[2]);
    u[0] = 0;
    u[1] = -v[2] * inverse;
    u[2] = v[1] * inverse;
  }
  w[0] = v[1] * u[2] - v[2] * u[1];
  w[1] = v[2] * u[0] - v[0] * u[2];
  w[2] = v[0] * u[1] - v[1] * u[0];
  const double uu = form(b, u, u), uw = form(b, u, w), ww = form(b, w, w);
  const Rotation r = diagonalising(uu, uw, ww);
  for (int k = 0; k < 3; ++k) {
    out.vector[1][k] = r.cosine * u[k] - r.sine * w[k];
    out.vector[2][k] = r.sine * u[k] + r.cosine * w[k];
  }
  const double values[3] = {form(b, v, v), uu - r.tangent * uw, ww + r.tangent * uw};
  for (int k = 0; k < 3; ++k) {
    out.value[k] = (mean + size * values[k]) * largest;
  }
  out.sort();
}

// Turn each vector around so that its component of largest magnitude is positive.
template <int D>
EQUIGEO_HOST_DEVICE void fix_signs(Eigen<D>& eigen) {
  for (int k = 0; k < D; ++k) {
    double most = eigen.vector[k][0];
    for (int i = 1; i < D; ++i) {
      most = magnitude(eigen.vector[k][i]) > magnitude(most) ? eigen.vector[k][i] : most;
    }
    for (int i = 0; i < D && most < 0; ++i) {
      eigen.vector[k][i] = -eigen.vector[k][i];
    }
  }
}

}  // namespace
}  // namespace equigeo
