// What channelwise products and convolutions are given, checked.
#pragma once

#include <optional>

#include "register/device.h"
#include "register/path_table.h"

namespace equigeo {

// Features with their path table. `rows` is the number of rows of y and weight.
//
// Whether components are outside (`ir_mul`) is an argument, although strides of segments say it
// too: on a GPU the table is in the memory of the device, which the host cannot read without
// waiting, and the host must know how much memory to set aside and what to launch. Kernels check
// that the segments agree.
struct ChannelwiseOperands {
  Tensor x, y;
  std::optional<Tensor> weight;
  PathDims dims;
  PathTensors table;
  bool ir_mul;
  int64_t weight_stride = 0;

  ChannelwiseOperands(
      const Tensor& x_given,
      const Tensor& y_given,
      const std::optional<Tensor>& weight_given,
      const Tensor& paths,
      const Tensor& entries,
      const Tensor& values,
      int64_t dim_out,
      bool ir_mul_given,
      int64_t rows)
      : x(as_rows("x", x_given, x_given, x_given.dim() > 0 ? x_given.size(0) : 0)),
        y(as_rows("y", y_given, x, rows)),
        weight(weight_given),
        dims{x.size(1), y.size(1), 0, dim_out},
        table(x, paths, entries, values),
        ir_mul(ir_mul_given) {
    if (weight.has_value()) {
      EQUIGEO_CHECK(weight->dim() == 2, "weight must be (rows, components)");
      dims.weight = weight->size(1);
      check_tensor("weight", *weight, x, x.scalar_type(), {rows, dims.weight});
      // One row that stands for all is not copied.
      const bool same = rows > 1 && weight->stride(0) == 0 && weight->stride(1) == 1;
      weight = same ? *weight : contiguous("weight", *weight);
      weight_stride = same ? 0 : dims.weight;
    }
  }

  // Fill in what the arguments of products have in common.
  template <template <class> class Op, class S>
  void fill(Op<S>& op) const {
    op.table = table.view<Compute<S>>(dims, weight.has_value(), ir_mul);
    op.x = read<S>(x);
    op.y = read<S>(y);
    op.weight = read_or_null<S>(weight);
    op.weight_stride = weight_stride;
  }

  Tensor new_grad_weight(bool* stream = nullptr) const {
    return new_result(x, {weight.has_value() ? weight->size(0) : 0, dims.weight}, stream);
  }

 private:
  static Tensor as_rows(const char* name, const Tensor& tensor, const Tensor& like, int64_t rows) {
    EQUIGEO_CHECK(tensor.dim() == 2, name, " must be (rows, components)");
    return checked(name, tensor, like, like.scalar_type(), {rows, tensor.size(1)});
  }
};

}  // namespace equigeo
