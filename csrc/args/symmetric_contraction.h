// Arguments of the ops, for any device: contiguous arrays whose sizes have been checked.
#pragma once

#include <stdint.h>

namespace equigeo {

// Rows of the op's arguments of these names. A node is a monomial: one, the variables, then the
// products of nodes before them.
struct Product {
  int64_t left, right;
};

// Adds to a component of the output, with a weight; its groups are sorted by polynomial.
struct Polynomial {
  int64_t weight, component, first, last;
};

// A node times a combination of nodes.
struct Group {
  int64_t node, first, last;
};

template <class T>
struct Polynomials {
  const Product* product;
  const Polynomial* polynomial;
  const Group* group;
  const int64_t* node;  // of each term
  const T* value;
  int64_t products, polynomials, groups, terms;
  int64_t variables, weights, components, nodes;
};

// A row as blocks of (channels, dim).
struct RowLayout {
  static constexpr int kMost = 256;
  int64_t components, blocks;
  int64_t all;  // the common dim, or 0
  int16_t dim[kMost];
};

template <class T>
struct SymmetricContraction {
  Polynomials<T> table;
  RowLayout in, out;
  int64_t rows, sets, channels;
  const T* x;            // (rows, channels * variables)
  const T* weight;       // (sets, weights, channels)
  const int64_t* index;  // (rows,)
  T* z;                  // (rows, channels * components)
};

// Rows that take one set of weights are cut into runs, whose gradients of the weights are added up
// in order: the outcome depends neither on the number of threads nor on who comes first.
constexpr int64_t kRowsOfRun = 16;

// Gradients of <grad, z>. Where there are tangents, the derivatives of these gradients along them.
template <class T>
struct SymmetricContractionGradients {
  Polynomials<T> table;
  RowLayout in, out;
  int64_t rows, sets, runs, channels;
  const T* grad;
  const T* x;
  const T* weight;
  const T* grad_tangent;  // these three as the ones above
  const T* x_tangent;
  const T* weight_tangent;
  const int64_t* order;  // (rows,), the rows of each set of weights
  const int64_t* ptr;    // (sets + 1,)
  bool only_x;           // no other gradient is wanted
  bool tangents;         // whether there are any; an empty array may be null
  T* to_grad;
  T* to_x;
  T* to_weight;
  T* partial;  // (runs, weights, channels), for sets that many rows take
};

}  // namespace equigeo
