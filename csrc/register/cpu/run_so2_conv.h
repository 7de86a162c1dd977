// Running convolutions by orders on the CPU: matrices are packed first, and gradients of weights
// summed by parts.
#pragma once

#include <algorithm>

#include "kernels/cpu/so2_conv.h"
#include "register/cpu/run_rows.h"
#include "register/tensors.h"

namespace equigeo {

// Multiply-adds of one edge, for one product by all matrices.
inline double so2_work(const SO2Plan& plan) {
  double work = 1.0 * (plan.dim_in + plan.dim_out) * (2 * plan.lmax + 1);
  for (int64_t m = 0; m <= plan.mmax; ++m) {
    work += 1.0 * plan.width_in[m] * plan.width_out[m] * (m == 0 ? 1 : 3);
  }
  return work;
}

// Rows that have the edges of some tiles, on average: enough for the memory that they need.
inline int64_t so2_rows(const SO2Plan& plan, int64_t rows, int64_t edges) {
  const int64_t tiles = std::clamp<int64_t>(edges / (64 * plan.tile), 1, 8);
  return std::max<int64_t>(1, rows * tiles * plan.tile / std::max<int64_t>(1, edges));
}

// Parts into which sources are divided: their sums of weights must fit into some memory. By the
// problem alone, so that results have the same bits for any number of threads.
inline int64_t so2_parts(const SO2Plan& plan, int64_t edges) {
  constexpr int64_t kMostParts = 16, kNumbers = 1 << 23;
  const int64_t size = 2 * std::max<int64_t>(1, plan.weight_numel);
  return std::clamp<int64_t>(std::min(edges / (4 * plan.tile), kNumbers / size), 1, kMostParts);
}

template <class T>
void run(const SO2Pack<T>& op) {
  run_rows(
      EQUIGEO_SELECT_KERNELS(so2_pack_orders), op, op.plan.mmax + 1, 1.0 * op.plan.weight_numel);
}

template <class T>
void run(const SO2PackRadial<T>& op) {
  run_rows(EQUIGEO_SELECT_KERNELS(so2_pack_radial), op, 1, 1.0);
}

// Matrices of all orders, of the convolution or of its adjoint.
template <class T>
Tensor packed_orders(const SO2Plan& plan, const T* weight, bool adjoint, const Tensor& like) {
  Tensor packed = new_tensor(like, {adjoint ? plan.adjoint_numel : plan.forward_numel});
  run(SO2Pack<T>{plan, weight, adjoint, write<T>(packed)});
  return packed;
}

// The map of the numbers of an edge, empty where there is none.
template <class T>
Tensor packed_radial(
    const SO2Plan& plan, const SO2Modulation<T>& given, bool transposed, const Tensor& like) {
  if (given.radial == nullptr) {
    return new_tensor(like, {0});
  }
  const int64_t inner = transposed ? plan.scale_numel : given.numbers;
  const int64_t columns = transposed ? given.numbers : plan.scale_numel;
  Tensor packed = new_tensor(like, {padded_width(columns) * inner});
  run(SO2PackRadial<T>{given.radial, inner, columns, transposed, write<T>(packed)});
  return packed;
}

template <class T>
void run(const SO2Conv<T>& given, const Tensor& like) {
  const SO2Plan& plan = given.plan;
  check_offsets("ptr", given.ptr, given.targets, given.edges);
  const Tensor matrices = packed_orders(plan, given.weight, false, like);
  const Tensor radial = packed_radial(plan, given.modulation, false, like);
  const bool mapped = given.modulation.radial != nullptr;
  const SO2PackedConv<T> op{
      given,
      read<T>(matrices),
      {given.modulation.scale, mapped ? read<T>(radial) : nullptr, nullptr,
       given.modulation.numbers}};
  run_rows(
      EQUIGEO_SELECT_KERNELS(so2_conv_rows), op, op.targets, so2_work(plan) * op.edges,
      so2_rows(plan, op.targets, op.edges));
}

// Add the parts up, in their order.
template <class T>
void sum_parts(const Tensor& parts, int64_t size, T* total) {
  const T* from = read<T>(parts);
  for (int64_t part = 0; part < parts.size(0); ++part) {
    for (int64_t n = 0; n < size; ++n) {
      total[n] += from[part * size + n];
    }
  }
}

template <class T>
void run(const SO2ConvBackward<T>& given, const Tensor& like) {
  const SO2Plan& plan = given.plan;
  check_offsets("back_ptr", given.back_ptr, given.sources, given.edges);
  const int64_t wanted = so2_parts(plan, given.edges);
  const int64_t rows = (given.sources + wanted - 1) / wanted;
  const int64_t parts = (given.sources + rows - 1) / rows;
  const bool mapped = given.modulation.radial != nullptr;
  const auto parts_of = [&](bool any, int64_t size) {
    return new_tensor(like, {any && given.of_weights ? parts : 0, size});
  };
  const int64_t bias_size = plan.width_out[0];
  const int64_t radial_size = given.modulation.numbers * plan.scale_numel;
  const Tensor weights = parts_of(true, plan.weight_numel);
  const Tensor biases = parts_of(given.bias != nullptr, bias_size);
  const Tensor radials = parts_of(mapped, radial_size);
  const auto write_or_null = [](const Tensor& tensor) {
    return tensor.numel() > 0 ? write<T>(tensor) : nullptr;
  };
  const Tensor matrices = packed_orders(plan, given.weight, false, like);
  const Tensor adjoint = packed_orders(plan, given.weight, true, like);
  const Tensor radial = packed_radial(plan, given.modulation, false, like);
  const Tensor radial_adjoint = packed_radial(plan, given.modulation, true, like);
  const SO2PackedConvBackward<T> op{
      given,
      read<T>(matrices),
      read<T>(adjoint),
      {given.modulation.scale, mapped ? read<T>(radial) : nullptr,
       mapped ? read<T>(radial_adjoint) : nullptr, given.modulation.numbers},
      rows,
      write<T>(weights),
      write_or_null(biases),
      write_or_null(radials)};
  run_rows(
      EQUIGEO_SELECT_KERNELS(so2_conv_backward_parts), op, parts, 3 * so2_work(plan) * op.edges);
  sum_parts(weights, plan.weight_numel, given.grad_weight);
  sum_parts(biases, bias_size, given.grad_bias);
  sum_parts(radials, radial_size, given.grad_radial);
}

}  // namespace equigeo
