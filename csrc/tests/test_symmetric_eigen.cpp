// Eigenvalues and eigenvectors by what defines them: residuals, orthogonality, order.
#include "math/symmetric_eigen.h"

#include "check.h"
#include "kernels/cpu/pack.h"
#include "math/symmetric_eigen_row.h"

namespace equigeo {
namespace {

// Products R diag(values) R^T with a random rotation, and random symmetric matrices.
template <class T, int D>
std::vector<T> matrices(int count, unsigned seed) {
  std::vector<T> all = check::normal<T>(count * D * D, seed);
  for (int m = 0; m < count; ++m) {
    T* a = all.data() + m * D * D;
    for (int i = 0; i < D; ++i) {
      for (int j = 0; j < i; ++j) {
        a[i * D + j] = a[j * D + i];
      }
    }
    if (m % 3 == 1) {  // two equal eigenvalues: v v^T + 1 / 2
      const T v[3] = {a[0], a[1], a[D]};
      for (int i = 0; i < D; ++i) {
        for (int j = 0; j < D; ++j) {
          a[i * D + j] = v[i] * v[j] + (i == j ? T(0.5) : T(0));
        }
      }
    } else if (m % 3 == 2) {  // diagonal, and all of them equal in the last one
      for (int i = 0; i < D; ++i) {
        for (int j = 0; j < D; ++j) {
          a[i * D + j] = i == j ? (m + 3 >= count ? T(2) : T(i - 1)) : T(0);
        }
      }
    }
  }
  return all;
}

template <class T, int D>
struct Solved {
  std::vector<T> matrix, values, vectors;
};

template <class Pack, class T, int D>
Solved<T, D> solved(int count) {
  Solved<T, D> all{matrices<T, D>(count, 3), std::vector<T>(count * D), {}};
  all.vectors.resize(count * D * D);
  const SymmetricEigen<T> op{count, D, all.matrix.data(), all.values.data(), all.vectors.data()};
  constexpr int kLanesOfPack = kWidth<Pack, double>;
  for (int first = 0; first < count; first += kLanesOfPack) {
    diagonalise<Pack, T, D>(op, first, std::min(kLanesOfPack, count - first));
  }
  return all;
}

// A v = lambda v, V^T V = 1 and descending lambda, with entries of the matrices of order one.
template <class T, int D>
void check_solution(const Solved<T, D>& all, int m, double tolerance) {
  const T* a = all.matrix.data() + m * D * D;
  const T* value = all.values.data() + m * D;
  const T* vector = all.vectors.data() + m * D * D;
  for (int k = 0; k < D; ++k) {
    check::holds(k == 0 || value[k - 1] >= value[k], "eigenvalues descend");
    for (int i = 0; i < D; ++i) {
      double image = 0;
      for (int j = 0; j < D; ++j) {
        image += static_cast<double>(a[i * D + j]) * vector[j * D + k];
      }
      check::near(image, static_cast<double>(value[k]) * vector[i * D + k], tolerance);
    }
    for (int l = 0; l < D; ++l) {
      double product = 0;
      for (int i = 0; i < D; ++i) {
        product += static_cast<double>(vector[i * D + k]) * vector[i * D + l];
      }
      check::near(product, k == l, tolerance);
    }
  }
}

template <class Pack, class T, int D>
void check_solutions() {
  constexpr int kCount = 31;
  const Solved<T, D> all = solved<Pack, T, D>(kCount);
  for (int m = 0; m < kCount; ++m) {
    // Entries reach about 10; a few operations of float64, and results rounded to T.
    check_solution(all, m, 100 * check::epsilon<T>);
  }
}

const bool two = check::add_for_floats(
    "eigenvectors of two rows", [](auto zero) { check_solutions<double, decltype(zero), 2>(); });
const bool three = check::add_for_floats(
    "eigenvectors of three rows", [](auto zero) { check_solutions<double, decltype(zero), 3>(); });
const bool packs = check::add_for_floats("eigenvectors, a matrix in each lane", [](auto zero) {
  check_solutions<WidePack<double>, decltype(zero), 2>();
  check_solutions<WidePack<double>, decltype(zero), 3>();
});
const bool control = check::add_for_floats("eigenvectors: a wrong value is seen", [](auto zero) {
  using T = decltype(zero);
  Solved<T, 3> all = solved<double, T, 3>(1);
  all.values[1] += T(1e-3);
  check::holds(
      check::fails([&] { check_solution(all, 0, 100 * check::epsilon<T>); }),
      "an eigenvalue that is off by 1e-3 passes");
});
const bool nan = check::add_for_floats("eigenvalues of what is not finite are NaN", [](auto zero) {
  using T = decltype(zero);
  T matrix[4] = {1, std::numeric_limits<T>::infinity(), 0, 1}, values[2], vectors[4];
  matrix[2] = matrix[1];
  diagonalise<double, T, 2>(SymmetricEigen<T>{1, 2, matrix, values, vectors}, 0, 1);
  check::holds(values[0] != values[0] && vectors[3] != vectors[3], "NaN");
});

}  // namespace
}  // namespace equigeo
