// A copywise product in the form of its kernels: paths that share products of components are side
// by side, and their coefficients are sparse matrices.
#pragma once

#include "args/products.h"
#include "kernels/cpu/isa.h"
#include "math/sparse_matrix.h"

namespace equigeo {

struct CopyPath {
  Segment out;
  int64_t weight;     // offset, where paths have any
  int64_t component;  // its first one among those of its group
};

// All paths from one pair of segments, which share the products of components (i, j).
struct CopyGroup {
  Segment x, y;
  bool matched;         // whether copies are coupled one by one
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
struct PlannedCopywiseProduct : CopywiseProduct<T> {
  CopyPlan<T> plan;
};

template <class T>
struct PlannedCopywiseProductBackward : CopywiseProductBackward<T> {
  CopyPlan<T> plan;
};

template <class T>
struct PlannedCopywiseProductDoubleBackward : CopywiseProductDoubleBackward<T> {
  CopyPlan<T> plan;
};

constexpr int64_t kCopyRows = 32;  // rows that kernels compute together, at most

EQUIGEO_DECLARE_KERNELS(PlannedCopywiseProduct, copywise_product_rows);
EQUIGEO_DECLARE_KERNELS(PlannedCopywiseProductBackward, copywise_product_backward_rows);
EQUIGEO_DECLARE_KERNELS(
    PlannedCopywiseProductDoubleBackward, copywise_product_double_backward_rows);

}  // namespace equigeo
