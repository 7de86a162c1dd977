// Arguments of the op, for any device: contiguous arrays whose sizes have been checked.
#pragma once

#include "ops/connection_view.h"

namespace equigeo {

// A sparse matrix whose rows of equal length stand side by side: loops over their terms then take
// the same number of turns many times in a row, which processors predict.
template <class T>
struct SparseTerm {
  int32_t place;  // of the number that it multiplies
  T value;
};

struct SparseRow {
  int64_t place, shift;  // the sum of copy n goes to `place + n * shift`
  int64_t weight;        // and its weight, where paths have any, is at `weight + n`
};

struct SparseRun {
  int32_t length, rows;
};

struct SparseBlock {
  int64_t run, runs, row, term;  // first run and their number, first row, first term
};

template <class T>
struct Sparse {
  const SparseRun* run;
  const SparseRow* row;
  const SparseTerm<T>* term;
};

struct CopyPath {
  Copies out;
  int64_t weight;  // offset, where paths have any
  int64_t place;   // of its first component among those of its group
};

// All paths from one pair of segments, which share the products of components (i, j).
struct CopyGroup {
  Copies x, y;
  bool matched;         // whether copies meet one by one
  int64_t path, paths;  // first path and their number
  int64_t outputs;      // components of all paths
  SparseBlock couple;   // from products of components to the output
  SparseBlock back;     // from components of the group to products
};

template <class T>
struct CopyPlan {
  const CopyGroup* group;
  int64_t groups;
  const CopyPath* path;
  Sparse<T> couple, back;
  int64_t dim_x, dim_y, dim_weight, dim_out;
  int64_t largest_products, largest_outputs;  // of a group
  bool covers, disjoint;  // whether paths reach all of the output, and no number of it twice
};

template <class T>
struct CopywiseProduct {
  ConnectionView<T> table;
  CopyPlan<T> plan;
  const T* x;             // (rows, dim_x)
  const T* y;             // (rows, dim_y)
  const T* weight;        // rows of dim_weight, or null where no path has weights
  int64_t weight_stride;  // from row to row; 0 where all have the same
  int64_t rows;
  T* out;       // (rows, dim_out)
  bool stream;  // whether it is written past the caches
};

template <class T>
struct CopywiseProductBackward {
  ConnectionView<T> table;
  CopyPlan<T> plan;
  const T* grad;  // (rows, dim_out)
  const T* x;
  const T* y;
  const T* weight;
  int64_t weight_stride;
  int64_t rows;
  T* grad_x;
  T* grad_y;
  T* grad_weight;  // (rows, dim_weight)
};

}  // namespace equigeo
