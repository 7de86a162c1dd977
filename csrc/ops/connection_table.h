// The arguments that describe connections, checked.
#pragma once

#include "ops/connection_view.h"
#include "ops/path_table.h"

namespace equigeo {

static_assert(sizeof(Connection) == 18 * sizeof(int64_t));

struct ConnectionTable {
  Tensor paths, entries, values;

  // Shapes and dtypes; the values are checked where the host can read them.
  ConnectionTable(
      const Tensor& like, const Tensor& paths_, const Tensor& entries_, const Tensor& values_) {
    const int64_t count = paths_.dim() > 0 ? paths_.size(0) : 0;
    const int64_t coefficients = entries_.dim() > 0 ? entries_.size(0) : 0;
    paths = checked("paths", paths_, like, ScalarType::Long, {count, 18});
    entries = checked("entries", entries_, like, ScalarType::Long, {coefficients, 3});
    values = checked("values", values_, like, like.scalar_type(), {coefficients});
  }

  template <class T>
  ConnectionView<T> view(const PathDims& dims, bool weighted) const {
    ConnectionView<T> view{};
    view.path = reinterpret_cast<const Connection*>(paths.const_data_ptr());
    view.count = paths.size(0);
    view.entry = reinterpret_cast<const Entry*>(entries.const_data_ptr());
    view.value = read<T>(values);
    view.dim_x = dims.x;
    view.dim_y = dims.y;
    view.dim_weight = dims.weight;
    view.dim_out = dims.out;
    view.weighted = weighted;
    return view;
  }
};

// Whether copies lie inside a row, without overflow.
inline bool inside(const Copies& copies, int64_t dim) {
  const int64_t left = dim - 1 - copies.first;
  if (copies.first < 0 || left < 0 || copies.mul < 1 || copies.d < 1 || copies.copy < 1 ||
      copies.step < 1 || copies.d - 1 > left / copies.step) {
    return false;
  }
  return copies.mul - 1 <= (left - (copies.d - 1) * copies.step) / copies.copy;
}

// Whether segments and coefficients of a path lie inside their arrays.
template <class T>
void check_connection(const ConnectionView<T>& table, int64_t p, int64_t coefficients) {
  constexpr int64_t kMost = 1 << 10;
  const Connection& path = table.path[p];
  STD_TORCH_CHECK(
      inside(path.x, table.dim_x) && inside(path.y, table.dim_y) && inside(path.out, table.dim_out),
      "path ", p, " leaves its rows");
  STD_TORCH_CHECK(
      (path.weight >= 0) == table.weighted, "path ", p, " must have weights as all paths, or none");
  STD_TORCH_CHECK(
      path.x.d < kMost && path.y.d < kMost && path.out.d < kMost, "path ", p,
      " has too many components");
  STD_TORCH_CHECK(
      0 <= path.first && path.first <= path.last && path.last <= coefficients, "path ", p,
      " has coefficients that do not exist");
  for (int64_t n = path.first; n < path.last; ++n) {
    const Entry e = table.entry[n];
    STD_TORCH_CHECK(
        0 <= e.i && e.i < path.x.d && 0 <= e.j && e.j < path.y.d && 0 <= e.k && e.k < path.out.d,
        "path ", p, " has a coefficient of a component that does not exist");
  }
}

}  // namespace equigeo
