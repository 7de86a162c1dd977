// Plans of the path tables that were used last, for calls whose tables take longer to read than
// their rows.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <vector>

#include "args/path_table.h"
#include "register/cpu/run_rows.h"

namespace equigeo {

// A table with memory of its own, so that the plan of it outlives the tensors that it came from.
template <class T>
class OwnedTable {
 public:
  explicit OwnedTable(const PathTable<T>& table)
      : paths_(table.path, table.path + table.count),
        entries_(table.entry, table.entry + table.coefficients),
        values_(table.value, table.value + table.coefficients),
        table_(table) {
    table_.path = paths_.data();
    table_.entry = entries_.data();
    table_.value = values_.data();
  }
  OwnedTable(const OwnedTable&) = delete;
  OwnedTable& operator=(const OwnedTable&) = delete;

  const PathTable<T>& table() const { return table_; }

  // Whether another table is the same, number by number: tensors are written to, and their memory
  // is used again, so that an address identifies nothing.
  bool equals(const PathTable<T>& other) const {
    const PathTable<T>& own = table_;
    return own.count == other.count && own.coefficients == other.coefficients &&
           own.dim_x == other.dim_x && own.dim_y == other.dim_y &&
           own.dim_weight == other.dim_weight && own.dim_out == other.dim_out &&
           own.weighted == other.weighted && own.ir_mul == other.ir_mul &&
           same(own.path, other.path, own.count) &&
           same(own.entry, other.entry, own.coefficients) &&
           same(own.value, other.value, own.coefficients);
  }

 private:
  template <class Item>
  static bool same(const Item* a, const Item* b, int64_t count) {
    return count == 0 || std::memcmp(a, b, count * sizeof(Item)) == 0;
  }

  std::vector<Path> paths_;
  std::vector<Entry> entries_;
  std::vector<T> values_;
  PathTable<T> table_;
};

// Plans of all products that were not found in a cache, for tests.
extern std::atomic<int64_t> plans_made;

// A plan and what keeps it alive.
template <template <class> class Planner, class T>
struct KeptPlan {
  OwnedTable<T> owned;
  Planner<T> planner;

  explicit KeptPlan(const PathTable<T>& table) : owned(table), planner(owned.table()) {}
};

// The plans of one thread, that of the last call first.
template <template <class> class Planner, class T>
class PlanCache {
 public:
  // Raises for a table as the planner does. Valid until the next call.
  Planner<T>& find(const PathTable<T>& table) {
    const auto found = std::find_if(
        plans_.begin(), plans_.end(), [&](const auto& plan) { return plan->owned.equals(table); });
    if (found != plans_.end()) {
      std::rotate(plans_.begin(), found, found + 1);
      return plans_.front()->planner;
    }
    ++plans_made;
    plans_.insert(plans_.begin(), std::make_unique<KeptPlan<Planner, T>>(table));
    coefficients_ += table.coefficients;
    while (plans_.size() > 1 && (plans_.size() > kMostPlans || coefficients_ > kMostCoefficients)) {
      coefficients_ -= plans_.back()->owned.table().coefficients;
      plans_.pop_back();
    }
    return plans_.front()->planner;
  }

 private:
  // More products than a model has, and some tens of megabytes.
  static constexpr size_t kMostPlans = 32;
  static constexpr int64_t kMostCoefficients = 1 << 20;

  std::vector<std::unique_ptr<KeptPlan<Planner, T>>> plans_;
  int64_t coefficients_ = 0;
};

// The plan of a table. Valid until the next call for this planner in this thread.
template <template <class> class Planner, class T>
Planner<T>& plan_of(const PathTable<T>& table) {
  thread_local PlanCache<Planner, T> cache;
  return cache.find(table);
}

// Run a product of rows, whose passes over them are as many as `passes` forward ones.
template <template <class> class Planned, template <class> class Op, class S, class Planner>
void run_planned(
    const Kernels<Planned>& kernels,
    const Op<S>& op,
    const Planner& planner,
    double passes,
    int64_t least) {
  const Planned<S> planned{op, planner.plan()};
  run_rows(kernels, planned, op.rows, passes * op.rows * planner.work(), least);
}

}  // namespace equigeo
