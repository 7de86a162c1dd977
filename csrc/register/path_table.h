// The arguments that describe the paths of a product, checked.
#pragma once

#include "args/path_table.h"
#include "register/tensors.h"

namespace equigeo {

constexpr int64_t kPathColumns = 18;
static_assert(
    sizeof(Path) == kPathColumns * sizeof(int64_t) && sizeof(Entry) == 3 * sizeof(int64_t));

struct PathDims {
  int64_t x, y, weight, out;
};

// The tensors of a table; their values are checked where the host can read them.
struct PathTensors {
  Tensor paths, entries, values;

  PathTensors(
      const Tensor& like,
      const Tensor& paths_given,
      const Tensor& entries_given,
      const Tensor& values_given) {
    const int64_t count = paths_given.dim() > 0 ? paths_given.size(0) : 0;
    const int64_t coefficients = entries_given.dim() > 0 ? entries_given.size(0) : 0;
    const ScalarType dtype = like.scalar_type();
    const ScalarType computed = dtype == ScalarType::BFloat16 ? ScalarType::Float : dtype;
    paths = checked("paths", paths_given, like, ScalarType::Long, {count, kPathColumns});
    entries = checked("entries", entries_given, like, ScalarType::Long, {coefficients, 3});
    values = checked("values", values_given, like, computed, {coefficients});
  }

  template <class T>
  PathTable<T> view(const PathDims& dims, bool weighted, bool ir_mul) const {
    check_components("the columns of x", dims.x);
    check_components("the columns of y", dims.y);
    check_components("the columns of weight", dims.weight);
    check_components("the columns of the output", dims.out);
    PathTable<T> table{};
    table.path = reinterpret_cast<const Path*>(paths.const_data_ptr());
    table.count = paths.size(0);
    table.entry = reinterpret_cast<const Entry*>(entries.const_data_ptr());
    table.value = read<T>(values);
    table.coefficients = entries.size(0);
    table.dim_x = dims.x;
    table.dim_y = dims.y;
    table.dim_weight = dims.weight;
    table.dim_out = dims.out;
    table.weighted = weighted;
    table.ir_mul = ir_mul;
    return table;
  }
};

}  // namespace equigeo
