// What copywise products are given, checked.
#pragma once

#include <optional>
#include <utility>

#include "register/device.h"
#include "register/path_table.h"

namespace equigeo {

struct CopywiseOperands {
  Tensor x, y;
  std::optional<Tensor> weight;
  PathTensors table;
  PathDims dims;
  int64_t rows, weight_stride;

  CopywiseOperands(
      const Tensor& x_given,
      const Tensor& y_given,
      const std::optional<Tensor>& weight_given,
      PathTensors table_given,
      int64_t dim_out)
      : x(x_given),
        y(y_given),
        weight(weight_given),
        table(std::move(table_given)),
        dims{},
        rows(0),
        weight_stride(0) {
    EQUIGEO_CHECK(x.dim() == 2, "x must be (rows, components)");
    EQUIGEO_CHECK(y.dim() == 2, "y must be (rows, components)");
    const ScalarType dtype = x.scalar_type();
    rows = x.size(0);
    dims.x = x.size(1);
    dims.y = y.size(1);
    dims.out = dim_out;
    x = checked("x", x, x, dtype, {rows, dims.x});
    y = checked("y", y, x, dtype, {rows, dims.y});
    if (weight.has_value()) {
      EQUIGEO_CHECK(weight->dim() == 2, "weight must be (rows, weights)");
      dims.weight = weight->size(1);
      // One row that stands for all is not copied.
      const bool same = rows > 1 && weight->stride(0) == 0 && weight->stride(1) == 1;
      check_tensor("weight", *weight, x, dtype, {rows, dims.weight});
      weight = same ? *weight : contiguous("weight", *weight);
      weight_stride = same ? 0 : dims.weight;
    }
  }

  template <template <class> class Op, class T>
  void fill(Op<T>& op) const {
    op.table = table.view<T>(dims, weight.has_value(), false);
    op.x = read<T>(x);
    op.y = read<T>(y);
    op.weight = weight.has_value() ? read<T>(*weight) : nullptr;
    op.weight_stride = weight_stride;
    op.rows = rows;
  }
};

// Rows are put together aside and written once: to write them past the caches pays early.
template <class T>
bool is_streamed(const Tensor& out) {
  constexpr int64_t kLeast = 1 << 22;  // bytes
  return out.numel() * static_cast<int64_t>(sizeof(T)) >= kLeast;
}

}  // namespace equigeo
