// The arguments that describe the paths of a product, checked and brought into the form of kernels.
#pragma once

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "math/paths.h"
#include "ops/channelwise_product.h"
#include "ops/tensors.h"

namespace equigeo {

static_assert(sizeof(Path) == 11 * sizeof(int64_t) && sizeof(Entry) == 3 * sizeof(int64_t));

struct PathTable {
  Tensor paths, entries, values;
  std::vector<Place> places;
  std::vector<Segment1> segments;
  std::vector<Entry> entries_by_second;
  std::vector<double> values_by_second;
  std::vector<float> values_by_second_f32;
};

struct PathDims {
  int64_t x, y, weight, out;
};

// Shapes and dtypes; the values are checked where the host can read them.
inline PathTable path_table(
    const Tensor& like, const Tensor& paths, const Tensor& entries, const Tensor& values) {
  const int64_t count = paths.dim() > 0 ? paths.size(0) : 0;
  const int64_t coefficients = entries.dim() > 0 ? entries.size(0) : 0;
  PathTable table;
  table.paths = checked("paths", paths, like, ScalarType::Long, {count, 11});
  table.entries = checked("entries", entries, like, ScalarType::Long, {coefficients, 3});
  const ScalarType dtype = like.scalar_type();
  const ScalarType computed = dtype == ScalarType::BFloat16 ? ScalarType::Float : dtype;
  table.values = checked("values", values, like, computed, {coefficients});
  return table;
}

template <class T>
Paths<T> view(const PathTable& table, const PathDims& dims, bool ir_mul) {
  Paths<T> view{};
  view.path = reinterpret_cast<const Path*>(table.paths.const_data_ptr());
  view.count = table.paths.size(0);
  view.entry = reinterpret_cast<const Entry*>(table.entries.const_data_ptr());
  view.value = read<T>(table.values);
  view.coefficients = table.entries.size(0);
  view.dim_x = dims.x;
  view.dim_y = dims.y;
  view.dim_weight = dims.weight;
  view.dim_out = dims.out;
  view.ir_mul = ir_mul;
  return view;
}

template <class T>
void check_path(const Paths<T>& paths, int64_t p) {
  const Path& path = paths.path[p];
  STD_TORCH_CHECK(has_body(path), "path ", p, ": first inputs have 1 to 13 components");
  STD_TORCH_CHECK(stays_inside(paths, path), "path ", p, " leaves its rows");
  STD_TORCH_CHECK(
      0 <= path.first && path.first <= path.last && path.last <= paths.coefficients, "path ", p,
      " has coefficients that do not exist");
  for (int64_t n = path.first; n < path.last; ++n) {
    STD_TORCH_CHECK(
        couples(path, paths.entry[n]), "path ", p,
        " has a coefficient of a component that does not exist");
  }
}

inline int64_t padded_size(int64_t mul, int64_t d) { return (mul + 15) / 16 * 16 * d; }

inline std::vector<float>& values_by_second(PathTable& table, float) {
  return table.values_by_second_f32;
}
inline std::vector<double>& values_by_second(PathTable& table, double) {
  return table.values_by_second;
}

template <class T>
void sort_by_second(PathTable& table, Paths<T>& paths) {
  std::vector<int64_t> order(table.entries.size(0));
  std::iota(order.begin(), order.end(), 0);
  for (int64_t p = 0; p < paths.count; ++p) {
    const Path& path = paths.path[p];
    std::stable_sort(
        order.begin() + path.first, order.begin() + path.last,
        [&](int64_t a, int64_t b) { return paths.entry[a].j < paths.entry[b].j; });
  }
  std::vector<T>& values = values_by_second(table, T());
  for (const int64_t n : order) {
    table.entries_by_second.push_back(paths.entry[n]);
    values.push_back(paths.value[n]);
  }
  paths.entry_by_second = table.entries_by_second.data();
  paths.value_by_second = values.data();
}

// Check every number of the table and lay out the padded rows. On the host.
template <class T>
Paths<T> plan(PathTable& table, const PathDims& dims, bool ir_mul) {
  Paths<T> paths = view<T>(table, dims, ir_mul);
  std::map<int64_t, int64_t> segment_at;
  int64_t covered = 0, end = 0;
  for (int64_t p = 0; p < paths.count; ++p) {
    check_path(paths, p);
    const Path& path = paths.path[p];
    const auto [found, is_new] = segment_at.try_emplace(path.x, table.segments.size());
    if (is_new) {
      table.segments.push_back({path.x, path.mul, path.d1, paths.padded_x});
      paths.padded_x += padded_size(path.mul, path.d1);
    }
    const Segment1& segment = table.segments[found->second];
    STD_TORCH_CHECK(
        segment.mul == path.mul && segment.d == path.d1, "path ", p,
        " reads a segment that another path divides otherwise");
    const bool opens = p == 0 || path.out != paths.path[p - 1].out;
    STD_TORCH_CHECK(
        opens ? path.out >= end
              : path.mul == paths.path[p - 1].mul && path.d3 == paths.path[p - 1].d3,
        "paths must be sorted by their segments of the output, which must not overlap");
    if (opens) {
      table.places.push_back({segment.place, paths.padded_out, paths.matrices, true, true});
      paths.padded_out += padded_size(path.mul, path.d3);
      covered += path.mul * path.d3;
      end = path.out + path.mul * path.d3;
    } else {
      table.places.back().closes = false;
      const int64_t out = table.places.back().out;
      table.places.push_back({segment.place, out, paths.matrices, false, true});
    }
    paths.matrices += path.mul2 * path.d1 * path.d3;
    paths.largest_matrix = std::max(paths.largest_matrix, path.d1 * path.d3);
    paths.largest_slot = std::max(paths.largest_slot, padded_size(path.mul, path.d3));
    paths.largest_x = std::max(paths.largest_x, padded_size(path.mul, path.d1));
  }
  sort_by_second(table, paths);
  paths.place = table.places.data();
  paths.segment = table.segments.data();
  paths.segments = static_cast<int64_t>(table.segments.size());
  paths.covers = covered == dims.out;
  int64_t covered_x = 0, covered_weight = 0;
  for (const Segment1& segment : table.segments) {
    covered_x += segment.mul * segment.d;
  }
  for (int64_t p = 0; p < paths.count; ++p) {
    covered_weight += paths.path[p].weight < 0 ? 0 : paths.path[p].mul * paths.path[p].mul2;
  }
  paths.covers_x = covered_x == dims.x;
  paths.covers_weight = covered_weight == dims.weight;
  return paths;
}

// Multiply-adds of one row.
template <class T>
int64_t work_per_row(const Paths<T>& paths) {
  int64_t work = 1;
  for (int64_t p = 0; p < paths.count; ++p) {
    const Path& path = paths.path[p];
    work += path.mul * path.mul2 * path.d1 * path.d3;
  }
  return work;
}

}  // namespace equigeo
