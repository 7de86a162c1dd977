#include "args/spherical_harmonics.h"

#include <tuple>
#include <vector>

#include "register/device.h"
#include "register/tensors.h"

namespace equigeo {
namespace {

// Bytes of a result that a cache shared by cores does not hold: what it holds is written faster.
constexpr size_t kBeyondSharedCache = 16 << 20;

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
    EQUIGEO_CHECK(x_given.dim() == 2, "x must be (points, 3)");
    EQUIGEO_CHECK(table_given.dim() == 3, "table must be (6, lmax + 1, lmax + 1)");
    points = x_given.size(0);
    const ScalarType dtype = x_given.scalar_type();
    const int64_t size = table_given.size(2);
    x = checked("x", x_given, x_given, dtype, {points, 3});
    table = checked("table", table_given, x_given, dtype, {6, size, size});
    EQUIGEO_CHECK(!degrees.empty(), "there must be a degree");
    for (const int64_t l : degrees) {
      EQUIGEO_CHECK(
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
};

Tensor spherical_harmonics_op(
    Tensor x, Tensor table, std::vector<int64_t> degrees, bool normalize) {
  const HarmonicsOperands operands(x, table, degrees, normalize);
  bool stream = false;
  Tensor out = new_result(operands.x, {operands.points, operands.dim}, &stream);
  for_dtype(operands.x, [&](auto zero) {
    using T = decltype(zero);
    auto op = operands.start<SphericalHarmonics, T>();
    op.out = write<T>(out);
    op.stream = stream && operands.points * operands.dim * sizeof(T) >= kBeyondSharedCache;
    run(op, operands.x);
  });
  return out;
}

Tensor spherical_harmonics_backward_op(
    Tensor grad, Tensor x, Tensor table, std::vector<int64_t> degrees, bool normalize) {
  const HarmonicsOperands operands(x, table, degrees, normalize);
  const Tensor& like = operands.x;
  grad = checked("grad", grad, like, like.scalar_type(), {operands.points, operands.dim});
  Tensor grad_x = new_result(like, {operands.points, 3});
  for_dtype(like, [&](auto zero) {
    using T = decltype(zero);
    auto op = operands.start<SphericalHarmonicsBackward, T>();
    op.grad = read<T>(grad);
    op.grad_x = write<T>(grad_x);
    run(op, like);
  });
  return grad_x;
}

std::tuple<Tensor, Tensor> spherical_harmonics_double_backward_op(
    Tensor along,
    Tensor grad,
    Tensor x,
    Tensor table,
    std::vector<int64_t> degrees,
    bool normalize) {
  const HarmonicsOperands operands(x, table, degrees, normalize);
  const Tensor& like = operands.x;
  const int64_t points = operands.points, dim = operands.dim;
  along = checked("along", along, like, like.scalar_type(), {points, 3});
  grad = checked("grad", grad, like, like.scalar_type(), {points, dim});
  Tensor to_grad = new_result(like, {points, dim});
  Tensor to_x = new_result(like, {points, 3});
  for_dtype(like, [&](auto zero) {
    using T = decltype(zero);
    auto op = operands.start<SphericalHarmonicsDoubleBackward, T>();
    op.along = read<T>(along);
    op.grad = read<T>(grad);
    op.to_grad = write<T>(to_grad);
    op.to_x = write<T>(to_x);
    run(op, like);
  });
  return {to_grad, to_x};
}

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, EQUIGEO_DEVICE, library) {
  library.impl("spherical_harmonics", TORCH_BOX(&equigeo::spherical_harmonics_op));
  library.impl(
      "spherical_harmonics_backward", TORCH_BOX(&equigeo::spherical_harmonics_backward_op));
  library.impl(
      "spherical_harmonics_double_backward",
      TORCH_BOX(&equigeo::spherical_harmonics_double_backward_op));
}
