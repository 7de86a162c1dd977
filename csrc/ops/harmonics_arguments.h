// What the ops of spherical harmonics are given, checked.
#pragma once

#include <vector>

#include "ops/device.h"
#include "ops/spherical_harmonics.h"
#include "ops/tensors.h"
#ifdef EQUIGEO_CUDA
#include "ops/cuda/spherical_harmonics.h"
#else
#include "ops/cpu/spherical_harmonics.h"
#endif

namespace equigeo {

// Points with their table and the columns of their harmonics.
struct HarmonicsOperands {
  Tensor x, table;
  std::vector<int32_t> center;
  int64_t points, dim;
  bool normalize;

  HarmonicsOperands(
      const Tensor& x_given,
      const Tensor& table_given,
      const std::vector<int64_t>& degrees,
      bool normalize_given)
      : dim(0), normalize(normalize_given) {
    STD_TORCH_CHECK(x_given.dim() == 2, "x must be (points, 3)");
    STD_TORCH_CHECK(table_given.dim() == 3, "table must be (6, lmax + 1, lmax + 1)");
    points = x_given.size(0);
    const ScalarType dtype = x_given.scalar_type();
    const int64_t size = table_given.size(2);
    x = checked("x", x_given, x_given, dtype, {points, 3});
    table = checked("table", table_given, x_given, dtype, {6, size, size});
    STD_TORCH_CHECK(!degrees.empty(), "there must be a degree");
    for (const int64_t l : degrees) {
      STD_TORCH_CHECK(
          l >= static_cast<int64_t>(center.size()) && l < size,
          "degrees must ascend within those of the table");
      center.resize(l + 1, -1);
      center[l] = static_cast<int32_t>(dim + l);
      dim += 2 * l + 1;
    }
  }

  // What all ops have in common.
  template <template <class> class Op, class T>
  Op<T> start() const {
    const int64_t size = table.size(2);
    const T* coefficients = read<T>(table);
    const auto part = [&](int64_t k) { return coefficients + k * size * size; };
    Op<T> op{};
    op.table = {
        part(0), part(1), part(2), part(3), part(4), size, static_cast<int64_t>(center.size()) - 1};
    op.center = center.data();
    op.points = points;
    op.dim = dim;
    op.normalize = normalize;
    op.x = read<T>(x);
    return op;
  }

  // Multiply-adds of all points.
  int64_t work() const {
    const int64_t size = static_cast<int64_t>(center.size());
    return points * (4 * size * size + 16);
  }
};

constexpr int64_t kLeastPoints = 256;  // in a chunk, a multiple of every register

}  // namespace equigeo
