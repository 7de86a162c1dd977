// What fully connected products are given, checked.
#pragma once

#include <utility>

#include "register/device.h"
#include "register/path_table.h"

namespace equigeo {

struct FullyConnectedOperands {
  Tensor x, y, weight;
  PathTensors table;
  PathDims dims;
  int64_t rows;

  FullyConnectedOperands(
      const Tensor& x_given,
      const Tensor& y_given,
      const Tensor& weight_given,
      PathTensors table_given,
      int64_t dim_out)
      : table(std::move(table_given)), dims{}, rows(0) {
    EQUIGEO_CHECK(x_given.dim() == 2, "x must be (rows, components)");
    EQUIGEO_CHECK(y_given.dim() == 2, "y must be (rows, components)");
    EQUIGEO_CHECK(weight_given.dim() == 2, "weight must be (rows, weights)");
    const ScalarType dtype = x_given.scalar_type();
    rows = x_given.size(0);
    dims = {x_given.size(1), y_given.size(1), weight_given.size(1), dim_out};
    x = checked("x", x_given, x_given, dtype, {rows, dims.x});
    y = checked("y", y_given, x, dtype, {rows, dims.y});
    weight = checked("weight", weight_given, x, dtype, {rows, dims.weight});
  }

  template <template <class> class Op, class T>
  void fill(Op<T>& op) const {
    op.table = table.view<T>(dims, true, false);
    op.x = read<T>(x);
    op.y = read<T>(y);
    op.weight = read<T>(weight);
    op.rows = rows;
  }
};

}  // namespace equigeo
