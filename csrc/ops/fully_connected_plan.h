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
      for (const Copies& copies : {table.path[p].x, table.path[p].y, table.path[p].out}) {
        settle_layout(copies, p);
      }
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
    paths.ir_mul = layout_ == kIrMul;
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
  enum Layout { kAny, kMulIr, kIrMul };

  void check_mixing(const Connection& path, int64_t p) const {
    STD_TORCH_CHECK(
        path.x.d % 2 == 1 && path.x.d <= 13 && path.out.d % 2 == 1 && path.out.d <= 13, "path ", p,
        ": first inputs and outputs have 1 to 13 components, an odd number");
    STD_TORCH_CHECK(
        path.y.mul <= table_.dim_weight / path.x.mul &&
            inside(path.weight, path.x.mul * path.y.mul, path.out.mul, table_.dim_weight),
        "path ", p, " leaves its rows");
  }

  // Copies must be side by side, components inside or outside, in all segments alike.
  void settle_layout(const Copies& copies, int64_t p) {
    const bool is_mul_ir = copies.step == 1 && copies.copy == copies.d;
    const bool is_ir_mul = copies.copy == 1 && copies.step == copies.mul;
    const Layout layout = is_mul_ir ? kMulIr : kIrMul;
    STD_TORCH_CHECK(is_mul_ir || is_ir_mul, "path ", p, " has a segment with gaps");
    if (copies.mul > 1 && copies.d > 1) {
      STD_TORCH_CHECK(
          layout_ == kAny || layout_ == layout, "path ", p, " has segments of two layouts");
      layout_ = layout;
    }
  }

  void add_path(const Connection& path) {
    const Copies &x = path.x, &y = path.y, &out = path.out;
    Paths<T>& paths = plan_.paths;
    const int64_t wide = padded_size(x.mul, 1);
    const auto [segment, is_new] =
        segment_at_.try_emplace({x.first, x.mul, x.d}, shared_.segments.size());
    if (is_new) {
      shared_.segments.push_back({x.first, x.mul, x.d, paths.padded_x});
      paths.padded_x += wide * x.d;
      inputs_.push_back({x.first, x.mul * x.d});
    }
    const auto [slot, opens] = slot_at_.try_emplace({out.first, out.mul, out.d}, slots_.size());
    if (opens) {
      slots_.push_back({out.first, out.mul, out.d, plan_.padded_slots});
      plan_.padded_slots += padded_size(out.mul, out.d);
      outputs_.push_back({out.first, out.mul * out.d});
    }
    weights_.push_back({path.weight, x.mul * y.mul * out.mul});
    slot_of_.push_back(slot->second);
    paths_.push_back(
        {x.first, x.mul, x.d, y.first, y.mul, y.d, out.first, out.d, path.weight, path.first,
         path.last});
    shared_.places.push_back(
        {shared_.segments[segment->second].place, 0, paths.matrices, opens, true});
    paths.matrices += y.mul * x.d * out.d;
    paths.largest_matrix = std::max(paths.largest_matrix, x.d * out.d);
    paths.largest_x = std::max(paths.largest_x, wide * x.d);
    plan_.largest_coupling = std::max(plan_.largest_coupling, wide * y.mul * out.d);
    plan_.largest_mul2 = std::max(plan_.largest_mul2, y.mul);
    work_ += x.mul * y.mul * out.d * (x.d + out.mul);
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
  Layout layout_ = kAny;
  int64_t work_ = 1;
};

}  // namespace equigeo
