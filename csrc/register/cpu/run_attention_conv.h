// Running attention convolutions on the CPU.
#pragma once

#include <algorithm>

#include "kernels/cpu/kernels.h"
#include "register/cpu/run_rows.h"
#include "register/tensors.h"

namespace equigeo {

// Targets whose share of the gradients of the weights is summed together: by the problem alone, so
// that results have the same bits for any number of threads.
inline int64_t rows_of_part(int64_t targets) {
  constexpr int64_t kMostParts = 64;
  return std::max(kAttendedRows, (targets + kMostParts - 1) / kMostParts);
}

inline int64_t parts_of(int64_t targets) {
  const int64_t rows = rows_of_part(targets);
  return (targets + rows - 1) / rows;
}

// Multiply-adds of a pass that applies a number of matrices to every row.
template <class Op>
double attention_conv_work(const Op& op, int matrices) {
  const double gathered = 1.0 * (op.edges + op.targets) * op.heads * (op.channels + 8);
  return gathered + matrices * 1.0 * op.targets * op.heads * op.channels * op.channels_out;
}

template <class T>
void run(const AttentionConv<T>& op, const Tensor&) {
  check_offsets("ptr", op.ptr, op.targets, op.edges);
  run_rows(
      EQUIGEO_SELECT_KERNELS(attention_conv_rows), op, op.targets, attention_conv_work(op, 2),
      kAttendedRows);
}

template <class T>
void run(const AttentionConvBackward<T>& op, const Tensor&) {
  check_offsets("ptr", op.ptr, op.targets, op.edges);
  check_offsets("back_ptr", op.back_ptr, op.sources, op.edges);
  run_rows(
      EQUIGEO_SELECT_KERNELS(attention_conv_backward_parts), op, parts_of(op.targets),
      attention_conv_work(op, 3));
  run_rows(
      EQUIGEO_SELECT_KERNELS(attention_conv_backward_sources), op, op.sources,
      attention_conv_work(op, 2), kAttendedRows);
}

}  // namespace equigeo
