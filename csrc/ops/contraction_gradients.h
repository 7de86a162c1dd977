// Gradients of a symmetric contraction, or how they change along tangents.
#pragma once

#include <tuple>

#include "ops/device.h"
#include "ops/polynomial_table.h"
#ifdef EQUIGEO_CUDA
#include "ops/cuda/symmetric_contraction.h"
#else
#include "ops/cpu/symmetric_contraction.h"
#endif

namespace equigeo {

template <class T>
void run(const SymmetricContractionGradients<T>& op, const Contracted& given, int64_t runs) {
#ifndef EQUIGEO_CUDA
  check_offsets("ptr", op.ptr, op.sets, op.rows);
#endif
  if (op.channels == 0) {  // arrays without elements may be null
    return;
  }
#ifdef EQUIGEO_CUDA
  check_launch(launch(op, runs, Stream(given.x).handle()));
#else
  const int64_t work = 3 * op.rows * op.channels * given.table.work();
  run_rows(EQUIGEO_KERNELS(symmetric_contraction_runs), op, runs, work);
  if (!op.only_x) {
    const int64_t sums = op.sets * op.table.weights;
    run_rows(
        EQUIGEO_KERNELS(symmetric_contraction_sums), op, sums,
        runs * op.table.weights * op.channels);
  }
#endif
}

// `tangents` are of grad, x and weight, or none.
inline std::tuple<Tensor, Tensor, Tensor> contraction_gradients(
    const Contracted& given,
    const Tensor& grad_given,
    const std::vector<Tensor>& tangents,
    const Tensor& order_given,
    const Tensor& ptr_given,
    bool only_x) {
  const Tensor grad = given.as_grad("grad", grad_given);
  const Tensor order = checked_index("order", order_given, given.x, given.rows);
  const Tensor ptr = checked_index("ptr", ptr_given, given.x, given.sets + 1);
  const bool moves = !tangents.empty();
  const Tensor grad_tangent = moves ? given.as_grad("grad_tangent", tangents[0]) : grad;
  const Tensor x_tangent = moves ? given.as_x("x_tangent", tangents[1]) : grad;
  const Tensor weight_tangent = moves ? given.as_weight("weight_tangent", tangents[2]) : grad;
  Tensor to_grad =
      only_x ? new_result(given.x, {0}) : new_result(given.x, {given.rows, grad.size(1)});
  Tensor to_x = new_result(given.x, {given.rows, given.x.size(1)});
  Tensor to_weight = only_x ? new_result(given.x, {0})
                            : new_result(given.x, {given.sets, given.weights, given.channels});
  const int64_t runs = given.rows / kRowsOfRun + given.sets;
  Tensor partial = new_result(
      given.x, {only_x || given.rows <= kRowsOfRun ? 0 : runs, given.weights, given.channels});
  for_dtype(given.x, [&](auto zero) {
    using T = decltype(zero);
    SymmetricContractionGradients<T> op{};
    given.view<T>(op);
    op.grad = read<T>(grad);
    op.grad_tangent = read<T>(grad_tangent);
    op.x_tangent = read<T>(x_tangent);
    op.weight_tangent = read<T>(weight_tangent);
    op.only_x = only_x;
    op.tangents = moves;
    op.order = read<int64_t>(order);
    op.ptr = read<int64_t>(ptr);
    op.to_grad = write<T>(to_grad);
    op.to_x = write<T>(to_x);
    op.to_weight = write<T>(to_weight);
    op.partial = write<T>(partial);
    run(op, given, runs);
  });
  return {to_grad, to_x, to_weight};
}

}  // namespace equigeo
