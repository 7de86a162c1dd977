// The table of a fully connected product in the form of the CPU kernels: couplings as those of a
// channelwise product, which are then mixed into segments of the output.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "ops/connection_table.h"
#include "ops/fully_connected_product.h"

namespace equigeo {

template <class T>
class FullyConnectedPlanner {
 public:
  FullyConnectedPlanner(const ConnectionView<T>& table, const ConnectionTable& tensors)
      : table_(table) {
    shared_.entries = tensors.entries;
    for (int64_t p = 0; p < table.count; ++p) {
      check_connection(table, p, tensors.values.size(0));
      check_mixing(table.path[p], p);
      add_path(table.path[p]);
    }
    Paths<T>& paths = plan_.paths;
    paths.path = paths_.data();
    paths.count = table.count;
    paths.entry = table.entry;
    paths.value = table.value;
    sort_by_second(shared_, paths);
    paths.place = shared_.places.data();
    paths.segment = shared_.segments.data();
    paths.segments = static_cast<int64_t>(shared_.segments.size());
    paths.dim_x = table.dim_x;
    paths.dim_y = table.dim_y;
    paths.dim_weight = table.dim_weight;
    paths.dim_out = table.dim_out;
    paths.ir_mul = table.ir_mul;
    plan_.slot = slots_.data();
    plan_.slots = static_cast<int64_t>(slots_.size());
    plan_.slot_of = slot_of_.data();
    paths.covers_x = covers("the first input", inputs_, table.dim_x);
    plan_.covers = covers("the output", outputs_, table.dim_out);
    plan_.covers_weight = covers("the weights", weights_, table.dim_weight);
  }

  const FullyConnectedPlan<T>& view() const { return plan_; }

  // Multiply-adds of one row.
  int64_t work() const { return work_; }

 private:
  using Interval = std::pair<int64_t, int64_t>;  // offset and size

  void check_mixing(const Connection& path, int64_t p) const {
    STD_TORCH_CHECK(
        path.d1 % 2 == 1 && path.d1 <= 13 && path.d3 % 2 == 1 && path.d3 <= 13, "path ", p,
        ": first inputs and outputs have 1 to 13 components, an odd number");
    STD_TORCH_CHECK(
        path.mul2 <= table_.dim_weight / path.mul &&
            inside(path.weight, path.mul * path.mul2, path.mul3, table_.dim_weight),
        "path ", p, " leaves its rows");
  }

  void add_path(const Connection& c) {
    Paths<T>& paths = plan_.paths;
    const int64_t wide = padded_size(c.mul, 1);
    const auto [segment, is_new] =
        segment_at_.try_emplace({c.x, c.mul, c.d1}, shared_.segments.size());
    if (is_new) {
      shared_.segments.push_back({c.x, c.mul, c.d1, paths.padded_x});
      paths.padded_x += wide * c.d1;
      inputs_.push_back({c.x, c.mul * c.d1});
    }
    const auto [slot, opens] = slot_at_.try_emplace({c.out, c.mul3, c.d3}, slots_.size());
    if (opens) {
      slots_.push_back({c.out, c.mul3, c.d3, plan_.padded_slots});
      plan_.padded_slots += padded_size(c.mul3, c.d3);
      outputs_.push_back({c.out, c.mul3 * c.d3});
    }
    weights_.push_back({c.weight, c.mul * c.mul2 * c.mul3});
    slot_of_.push_back(slot->second);
    paths_.push_back(
        {c.x, c.mul, c.d1, c.y, c.mul2, c.d2, c.out, c.d3, c.weight, c.first, c.last});
    shared_.places.push_back(
        {shared_.segments[segment->second].place, 0, paths.matrices, opens, true});
    paths.matrices += c.mul2 * c.d1 * c.d3;
    paths.largest_matrix = std::max(paths.largest_matrix, c.d1 * c.d3);
    paths.largest_x = std::max(paths.largest_x, wide * c.d1);
    plan_.largest_coupling = std::max(plan_.largest_coupling, wide * c.mul2 * c.d3);
    plan_.largest_mul2 = std::max(plan_.largest_mul2, c.mul2);
    work_ += c.mul * c.mul2 * c.d3 * (c.d1 + c.mul3);
  }

  static bool covers(const char* name, std::vector<Interval>& intervals, int64_t size) {
    std::sort(intervals.begin(), intervals.end());
    int64_t end = 0, covered = 0;
    for (const Interval& interval : intervals) {
      STD_TORCH_CHECK(interval.first >= end, "paths must not overlap in ", name);
      end = interval.first + interval.second;
      covered += interval.second;
    }
    return covered == size;
  }

  const ConnectionView<T>& table_;
  FullyConnectedPlan<T> plan_{};
  PathTable shared_;
  std::map<std::array<int64_t, 3>, int64_t> segment_at_, slot_at_;
  std::vector<Path> paths_;
  std::vector<Slot> slots_;
  std::vector<int64_t> slot_of_;
  std::vector<Interval> inputs_, outputs_, weights_;
  int64_t work_ = 1;
};

}  // namespace equigeo
