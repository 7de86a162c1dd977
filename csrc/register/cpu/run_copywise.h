// Running copywise products on the CPU, their tables checked and in the form of the kernels: paths
// that share products of components side by side, coefficients as sparse matrices from products to
// outputs and back.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "kernels/cpu/copywise_product.h"
#include "register/cpu/check_paths.h"
#include "register/cpu/plan_cache.h"
#include "register/tensors.h"

namespace equigeo {

template <class T>
class SparseMatrices {
 public:
  // Append a matrix given as (row, column, value), in any order.
  struct Number {
    int32_t row, column;
    T value;
  };

  SparseBlock append(const std::vector<Number>& numbers, const std::vector<SparseRow>& targets) {
    const SparseBlock block{size(runs_), 0, size(rows_), size(terms_)};
    const int64_t rows = size(targets);
    std::vector<int64_t> first(rows + 1), by_length(numbers.size() + 2);
    for (const Number& number : numbers) {
      ++first[number.row + 1];
    }
    for (int64_t row = 0; row < rows; ++row) {
      ++by_length[first[row + 1] + 1];
      first[row + 1] += first[row];
    }
    std::vector<SparseTerm<T>> terms(numbers.size());
    std::vector<int64_t> next(first.begin(), first.end() - 1);
    for (const Number& number : numbers) {
      terms[next[number.row]++] = {number.column, number.value};
    }
    for (const int64_t row : sorted_rows(first, by_length)) {
      rows_.push_back(targets[row]);
      terms_.insert(terms_.end(), terms.begin() + first[row], terms.begin() + first[row + 1]);
    }
    return {block.run, size(runs_) - block.run, block.row, block.term};
  }

  Sparse<T> view() const { return {runs_.data(), rows_.data(), terms_.data()}; }

 private:
  template <class Vector>
  static int64_t size(const Vector& vector) {
    return static_cast<int64_t>(vector.size());
  }

  // Rows by length, and a run for each length; `by_length[n + 1]` counts those of length n.
  std::vector<int64_t> sorted_rows(
      const std::vector<int64_t>& first, std::vector<int64_t>& by_length) {
    for (size_t n = 0; n + 1 < by_length.size(); ++n) {
      if (by_length[n + 1] > 0) {
        runs_.push_back({static_cast<int32_t>(n), static_cast<int32_t>(by_length[n + 1])});
      }
      by_length[n + 1] += by_length[n];
    }
    std::vector<int64_t> order(first.size() - 1);
    for (size_t row = 0; row < order.size(); ++row) {
      order[by_length[first[row + 1] - first[row]]++] = static_cast<int64_t>(row);
    }
    return order;
  }

  std::vector<SparseRun> runs_;
  std::vector<SparseRow> rows_;
  std::vector<SparseTerm<T>> terms_;
};

template <class T>
class CopyPlanner {
 public:
  explicit CopyPlanner(const PathTable<T>& table) : table_(table) {
    std::map<std::array<int64_t, 11>, std::vector<int64_t>> members;
    std::vector<bool> reached(table.dim_out);
    int64_t elements = 0;
    for (int64_t p = 0; p < table.count; ++p) {
      check_path(table, p);
      const Path& path = table.path[p];
      check_copies(path, p);
      members[key(path)].push_back(p);
      mark(path.out, reached);
      elements += path.out.mul * path.out.d;
    }
    const int64_t different = std::count(reached.begin(), reached.end(), true);
    plan_.disjoint = different == elements;
    plan_.covers = plan_.disjoint && different == table.dim_out;
    for (const auto& [where, paths] : members) {
      add_group(paths);
    }
    plan_.group = groups_.data();
    plan_.groups = static_cast<int64_t>(groups_.size());
    plan_.path = paths_.data();
    plan_.couple = couple_.view();
    plan_.back = back_.view();
    plan_.dim_x = table.dim_x;
    plan_.dim_y = table.dim_y;
    plan_.dim_weight = table.dim_weight;
    plan_.dim_out = table.dim_out;
  }
  CopyPlanner(const CopyPlanner&) = delete;
  CopyPlanner& operator=(const CopyPlanner&) = delete;

  const CopyPlan<T>& plan() const { return plan_; }

  // Multiply-adds of one row.
  double work() const { return work_; }

 private:
  using Number = typename SparseMatrices<T>::Number;

  static std::array<int64_t, 11> key(const Path& path) {
    const Segment &x = path.x, &y = path.y;
    return {x.offset, x.mul, x.d,    x.copy, x.step,          y.offset,
            y.mul,    y.d,   y.copy, y.step, is_matched(path)};
  }

  static void mark(const Segment& segment, std::vector<bool>& reached) {
    for (int64_t u = 0; u < segment.mul; ++u) {
      for (int64_t k = 0; k < segment.d; ++k) {
        reached[segment.offset + u * segment.copy + k * segment.step] = true;
      }
    }
  }

  void check_copies(const Path& path, int64_t p) const {
    const int64_t mul = path.x.mul, mul2 = path.y.mul, mul3 = path.out.mul;
    EQUIGEO_CHECK(
        !is_matched(path) || (mul == mul2 && mul == mul3), "path ", p,
        " must have as many copies as pairs of copies, or as each input");
    EQUIGEO_CHECK(
        path.weight < 0 || inside(path.weight, mul3, 1, table_.dim_weight), "path ", p,
        " leaves its rows");
  }

  void add_group(const std::vector<int64_t>& members) {
    const Path& head = table_.path[members.front()];
    CopyGroup group{};
    group.x = head.x;
    group.y = head.y;
    group.matched = is_matched(head);
    group.path = static_cast<int64_t>(paths_.size());
    group.paths = static_cast<int64_t>(members.size());
    std::vector<Number> numbers, transposed;
    std::vector<SparseRow> outputs, products;
    for (const int64_t p : members) {
      const Path& path = table_.path[p];
      const Segment& out = path.out;
      paths_.push_back({out, path.weight, group.outputs});
      for (int64_t n = path.first; n < path.last; ++n) {
        const Entry e = table_.entry[n];
        const int32_t product = static_cast<int32_t>(e.i * path.y.d + e.j);
        const int32_t output = static_cast<int32_t>(group.outputs + e.k);
        numbers.push_back({output, product, table_.value[n]});
        transposed.push_back({product, output, table_.value[n]});
      }
      for (int64_t k = 0; k < out.d; ++k) {
        outputs.push_back({out.offset + k * out.step, out.copy, path.weight});
      }
      group.outputs += out.d;
      EQUIGEO_CHECK(group.outputs <= kMostComponents, "the paths take too much memory");
    }
    for (int64_t n = 0; n < head.x.d * head.y.d; ++n) {
      products.push_back({n, 0, -1});
    }
    group.couple = couple_.append(numbers, outputs);
    group.back = back_.append(transposed, products);
    groups_.push_back(group);
    const double pairs = group.matched ? group.x.mul : group.x.mul * group.y.mul;
    work_ += pairs * (group.x.d * group.y.d + group.outputs);
    plan_.largest_products = std::max(plan_.largest_products, group.x.d * group.y.d);
    plan_.largest_outputs = std::max(plan_.largest_outputs, group.outputs);
  }

  const PathTable<T>& table_;
  CopyPlan<T> plan_{};
  std::vector<CopyGroup> groups_;
  std::vector<CopyPath> paths_;
  SparseMatrices<T> couple_, back_;
  double work_ = 1;
};

template <class T>
void run(const CopywiseProduct<T>& op, const Tensor&) {
  const auto& planner = plan_of<CopyPlanner>(op.table);
  run_planned(EQUIGEO_SELECT_KERNELS(copywise_product_rows), op, planner, 1, kCopyRows);
}

template <class T>
void run(const CopywiseProductBackward<T>& op, const Tensor&) {
  const auto& planner = plan_of<CopyPlanner>(op.table);
  run_planned(EQUIGEO_SELECT_KERNELS(copywise_product_backward_rows), op, planner, 3, kCopyRows);
}

template <class T>
void run(const CopywiseProductDoubleBackward<T>& op, const Tensor&) {
  const auto& planner = plan_of<CopyPlanner>(op.table);
  run_planned(
      EQUIGEO_SELECT_KERNELS(copywise_product_double_backward_rows), op, planner, 5, kCopyRows);
}

}  // namespace equigeo
