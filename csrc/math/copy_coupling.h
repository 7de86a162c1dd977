// The coupling of one copy of each input: products of components, sparse sums of them, gradients.
//
// Component i of an operand is at `i * step`, and every number is N packs of lanes.
#pragma once

#include "math/host_device.h"
#include "math/sparse_matrix.h"

namespace equigeo {
namespace {

// Neighbouring packs that are computed together.
template <class Pack, int N, class T>
struct PackGroup {
  static constexpr int64_t kLanes = N * kWidth<Pack, T>;
  Pack pack[N];

  static EQUIGEO_HOST_DEVICE PackGroup load(const T* address) {
    PackGroup group;
    EQUIGEO_UNROLL
    for (int n = 0; n < N; ++n) {
      group.pack[n] = Memory<Pack, T>::load(address + n * kWidth<Pack, T>);
    }
    return group;
  }
  EQUIGEO_HOST_DEVICE void store(T* address) const {
    EQUIGEO_UNROLL
    for (int n = 0; n < N; ++n) {
      Memory<Pack, T>::store(address + n * kWidth<Pack, T>, pack[n]);
    }
  }
  EQUIGEO_HOST_DEVICE PackGroup operator*(const PackGroup& other) const {
    PackGroup product;
    EQUIGEO_UNROLL
    for (int n = 0; n < N; ++n) {
      product.pack[n] = pack[n] * other.pack[n];
    }
    return product;
  }
  EQUIGEO_HOST_DEVICE void add(const PackGroup& a, const PackGroup& b) {
    EQUIGEO_UNROLL
    for (int n = 0; n < N; ++n) {
      pack[n] += a.pack[n] * b.pack[n];
    }
  }
  EQUIGEO_HOST_DEVICE void add(T value, const PackGroup& a) {
    EQUIGEO_UNROLL
    for (int n = 0; n < N; ++n) {
      pack[n] += value * a.pack[n];
    }
  }
};

// products[i * d2 + j] = x_i y_j
template <class Group, class T>
EQUIGEO_HOST_DEVICE void component_products(
    const T* x, int64_t d1, int64_t x_step, const T* y, int64_t d2, int64_t y_step, T* products) {
  for (int64_t i = 0; i < d1; ++i) {
    const Group xi = Group::load(x + i * x_step);
    for (int64_t j = 0; j < d2; ++j) {
      (xi * Group::load(y + j * y_step)).store(products);
      products += Group::kLanes;
    }
  }
}

// How they change: products[i * d2 + j] = a_i y_j + x_i b_j along tangents a of x and b of y, which
// are null where they are zero, at the steps of what they belong to.
template <class Group, class T>
EQUIGEO_HOST_DEVICE void product_tangents(
    const T* x,
    const T* x_tangent,
    int64_t d1,
    int64_t x_step,
    const T* y,
    const T* y_tangent,
    int64_t d2,
    int64_t y_step,
    T* products) {
  if (y_tangent == nullptr) {
    return component_products<Group>(x_tangent, d1, x_step, y, d2, y_step, products);
  }
  if (x_tangent == nullptr) {
    return component_products<Group>(x, d1, x_step, y_tangent, d2, y_step, products);
  }
  for (int64_t i = 0; i < d1; ++i) {
    const Group xi = Group::load(x + i * x_step), ai = Group::load(x_tangent + i * x_step);
    for (int64_t j = 0; j < d2; ++j) {
      Group sum = ai * Group::load(y + j * y_step);
      sum.add(xi, Group::load(y_tangent + j * y_step));
      sum.store(products);
      products += Group::kLanes;
    }
  }
}

template <class Group, int Length, class T, class Put>
EQUIGEO_HOST_DEVICE void sparse_rows(
    const SparseTerm<T>* term,
    int64_t length,
    const SparseRow* row,
    int64_t rows,
    const T* source,
    const Put& put) {
  const int64_t terms = Length > 0 ? Length : length;
  for (int64_t r = 0; r < rows; ++r) {
    Group sum{};
    EQUIGEO_UNROLL
    for (int64_t n = 0; n < terms; ++n) {
      sum.add(term[n].value, Group::load(source + term[n].column * Group::kLanes));
    }
    put(row[r], sum);
    term += terms;
  }
}

// put(row, sum) for every row of matrix * source, where a number is a group of packs
template <class Group, class T, class Put>
EQUIGEO_HOST_DEVICE void sparse_product(
    const Sparse<T>& matrix, const SparseBlock& block, const T* source, const Put& put) {
  const SparseTerm<T>* term = matrix.term + block.term;
  const SparseRow* row = matrix.row + block.row;
  for (int64_t i = 0; i < block.runs; ++i) {
    const SparseRun run = matrix.run[block.run + i];
    switch (run.length) {
      case 1:
        sparse_rows<Group, 1>(term, 1, row, run.rows, source, put);
        break;
      case 2:
        sparse_rows<Group, 2>(term, 2, row, run.rows, source, put);
        break;
      case 3:
        sparse_rows<Group, 3>(term, 3, row, run.rows, source, put);
        break;
      case 4:
        sparse_rows<Group, 4>(term, 4, row, run.rows, source, put);
        break;
      default:
        sparse_rows<Group, 0>(term, run.length, row, run.rows, source, put);
    }
    term += run.length * run.rows;
    row += run.rows;
  }
}

template <class Group, bool ToX, bool ToY, class T>
EQUIGEO_HOST_DEVICE void product_gradients_by(
    const T* slopes,
    const T* x,
    int64_t d1,
    int64_t x_step,
    const T* y,
    int64_t d2,
    int64_t y_step,
    T* grad_x,
    T* grad_y) {
  for (int64_t i = 0; i < d1; ++i) {
    Group xi{}, to_x{};
    if constexpr (ToX) {
      to_x = Group::load(grad_x + i * x_step);
    }
    if constexpr (ToY) {
      xi = Group::load(x + i * x_step);
    }
    for (int64_t j = 0; j < d2; ++j) {
      const Group slope = Group::load(slopes);
      if constexpr (ToX) {
        to_x.add(slope, Group::load(y + j * y_step));
      }
      if constexpr (ToY) {
        Group to_y = Group::load(grad_y + j * y_step);
        to_y.add(slope, xi);
        to_y.store(grad_y + j * y_step);
      }
      slopes += Group::kLanes;
    }
    if constexpr (ToX) {
      to_x.store(grad_x + i * x_step);
    }
  }
}

// With slopes Q_ij of the products: grad_x_i += sum_j Q_ij y_j and grad_y_j += sum_i Q_ij x_i. A
// null pointer to a gradient is one that is not wanted, and what it is made of is not read.
template <class Group, class T>
EQUIGEO_HOST_DEVICE void product_gradients(
    const T* slopes,
    const T* x,
    int64_t d1,
    int64_t x_step,
    const T* y,
    int64_t d2,
    int64_t y_step,
    T* grad_x,
    T* grad_y) {
  if (grad_x == nullptr) {
    return product_gradients_by<Group, false, true>(
        slopes, x, d1, x_step, y, d2, y_step, grad_x, grad_y);
  }
  if (grad_y == nullptr) {
    return product_gradients_by<Group, true, false>(
        slopes, x, d1, x_step, y, d2, y_step, grad_x, grad_y);
  }
  product_gradients_by<Group, true, true>(slopes, x, d1, x_step, y, d2, y_step, grad_x, grad_y);
}

}  // namespace
}  // namespace equigeo
