// On the CPU alone: on other devices PyTorch's batch norm is taken.
#include "args/relu_batch_norm.h"

#include <optional>
#include <tuple>
#include <vector>

#include "register/cpu/result_memory.h"
#include "register/cpu/run_relu_batch_norm.h"

namespace equigeo {
namespace {

// The tensors of either op, after checks.
struct Operands {
  Tensor x;
  std::optional<Tensor> added;
  Tensor weight, bias;
  double eps;
};

Operands checked_operands(
    const Tensor& x,
    const std::optional<Tensor>& added,
    const Tensor& weight,
    const Tensor& bias,
    double eps) {
  EQUIGEO_CHECK(x.dim() == 2, "x must be (rows, channels)");
  EQUIGEO_CHECK(eps > 0, "eps must be positive, got ", eps);
  const ScalarType dtype = x.scalar_type();
  const int64_t rows = x.size(0), channels = x.size(1);
  check_components("channels", channels);
  Operands found{
      checked("x", x, x, dtype, {rows, channels}), std::nullopt,
      checked("weight", weight, x, dtype, {channels}), checked("bias", bias, x, dtype, {channels}),
      eps};
  if (added.has_value()) {
    found.added = checked("added", *added, x, dtype, {rows, channels});
  }
  return found;
}

template <class T>
BatchStatistics<T> statistics_of(const Operands& given) {
  const T* added = given.added.has_value() ? read<T>(*given.added) : nullptr;
  return BatchStatistics<T>(
      read<T>(given.x), added, given.x.size(0), given.x.size(1), read<T>(given.weight),
      read<T>(given.bias), given.eps);
}

std::tuple<Tensor, Tensor, Tensor> relu_batch_norm_op(
    Tensor x, std::optional<Tensor> added, Tensor weight, Tensor bias, double eps, bool rectify) {
  const Operands given = checked_operands(x, added, weight, bias, eps);
  const int64_t channels = given.x.size(1);
  Tensor out = new_result(given.x, {given.x.size(0), channels});
  Tensor mean = new_zeros(given.x, {channels}), variance = new_zeros(given.x, {channels});
  if (all_empty({&out})) {
    return {out, mean, variance};
  }
  for_dtype(given.x, [&](auto zero) {
    using T = decltype(zero);
    const BatchStatistics<T> found = statistics_of<T>(given);
    std::copy(found.mean.begin(), found.mean.end(), write<T>(mean));
    std::copy(found.variance.begin(), found.variance.end(), write<T>(variance));
    normalize_rows(found.forward(rectify, write<T>(out)));
  });
  return {out, mean, variance};
}

std::tuple<Tensor, Tensor, Tensor> relu_batch_norm_backward_op(
    Tensor grad_out,
    Tensor x,
    std::optional<Tensor> added,
    Tensor weight,
    Tensor bias,
    double eps,
    bool rectify) {
  const Operands given = checked_operands(x, added, weight, bias, eps);
  const int64_t rows = given.x.size(0), channels = given.x.size(1);
  grad_out = checked("grad_out", grad_out, given.x, given.x.scalar_type(), {rows, channels});
  Tensor grad_x = new_result(given.x, {rows, channels});
  Tensor grad_weight = new_zeros(given.x, {channels}), grad_bias = new_zeros(given.x, {channels});
  if (all_empty({&grad_x})) {
    return {grad_x, grad_weight, grad_bias};
  }
  for_dtype(given.x, [&](auto zero) {
    using T = decltype(zero);
    const BatchStatistics<T> found = statistics_of<T>(given);
    differentiate_rows(
        found, found.forward(rectify, nullptr), read<T>(grad_out), write<T>(grad_x),
        write<T>(grad_weight), write<T>(grad_bias));
  });
  return {grad_x, grad_weight, grad_bias};
}

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, CPU, library) {
  library.impl("relu_batch_norm", TORCH_BOX(&equigeo::relu_batch_norm_op));
  library.impl("relu_batch_norm_backward", TORCH_BOX(&equigeo::relu_batch_norm_backward_op));
}
