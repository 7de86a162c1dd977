// The arguments that describe connections, checked.
#pragma once

#include "ops/copywise_product.h"
#include "ops/path_table.h"

namespace equigeo {

static_assert(sizeof(Connection) == 12 * sizeof(int64_t));

struct ConnectionTable {
  Tensor paths, entries, values;

  ConnectionTable() = default;

  // Shapes and dtypes; the values are checked where the host can read them.
  ConnectionTable(
      const Tensor& like, const Tensor& paths_, const Tensor& entries_, const Tensor& values_) {
    const int64_t count = paths_.dim() > 0 ? paths_.size(0) : 0;
    const int64_t coefficients = entries_.dim() > 0 ? entries_.size(0) : 0;
    paths = checked("paths", paths_, like, ScalarType::Long, {count, 12});
    entries = checked("entries", entries_, like, ScalarType::Long, {coefficients, 3});
    values = checked("values", values_, like, like.scalar_type(), {coefficients});
  }

  template <class T>
  ConnectionView<T> view(const PathDims& dims, bool ir_mul) const {
    ConnectionView<T> view{};
    view.path = reinterpret_cast<const Connection*>(paths.const_data_ptr());
    view.count = paths.size(0);
    view.entry = reinterpret_cast<const Entry*>(entries.const_data_ptr());
    view.value = read<T>(values);
    view.dim_x = dims.x;
    view.dim_y = dims.y;
    view.dim_weight = dims.weight;
    view.dim_out = dims.out;
    view.ir_mul = ir_mul;
    return view;
  }
};

// Whether segments and coefficients of a path lie inside their arrays.
template <class T>
void check_connection(const ConnectionView<T>& table, int64_t p, int64_t coefficients) {
  const Connection& path = table.path[p];
  STD_TORCH_CHECK(
      inside(path.x, path.mul, path.d1, table.dim_x) &&
          inside(path.y, path.mul2, path.d2, table.dim_y) &&
          inside(path.out, path.mul3, path.d3, table.dim_out),
      "path ", p, " leaves its rows");
  STD_TORCH_CHECK(
      path.d1 < 1 << 10 && path.d2 < 1 << 10 && path.d3 < 1 << 10, "path ", p,
      " has too many components");
  STD_TORCH_CHECK(
      0 <= path.first && path.first <= path.last && path.last <= coefficients, "path ", p,
      " has coefficients that do not exist");
  for (int64_t n = path.first; n < path.last; ++n) {
    const Entry e = table.entry[n];
    STD_TORCH_CHECK(
        0 <= e.i && e.i < path.d1 && 0 <= e.j && e.j < path.d2 && 0 <= e.k && e.k < path.d3,
        "path ", p, " has a coefficient of a component that does not exist");
  }
}

inline Copies copies(int64_t first, int64_t mul, int64_t d, bool ir_mul) {
  return ir_mul ? Copies{first, mul, d, 1, mul} : Copies{first, mul, d, d, 1};
}

}  // namespace equigeo
