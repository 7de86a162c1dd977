// Running fully connected products on the CPU, their tables checked and in the form of the kernels:
// couplings as those of a channelwise product, which are then mixed into segments of the output.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "kernels/cpu/fully_connected_product.h"
#include "register/cpu/channelwise_plan.h"
#include "register/cpu/plan_cache.h"
#include "register/tensors.h"

namespace equigeo {

template <class T>
class FullyConnectedPlanner {
 public:
  explicit FullyConnectedPlanner(const PathTable<T>& table) : table_(table) {
    ChannelwisePlan<T>& paths = plan_.paths;
    static_cast<PathTable<T>&>(paths) = table;
    for (int64_t p = 0; p < table.count; ++p) {
      check_path(table, p);
      check_mixing(table.path[p], p);
      for (const Segment& segment : {table.path[p].x, table.path[p].y, table.path[p].out}) {
        settle_layout(segment, p);
      }
      add_path(table.path[p]);
    }
    by_second_.sort(paths);
    paths.layout = layouts_.data();
    paths.segment = segments_.data();
    paths.segments = static_cast<int64_t>(segments_.size());
    paths.ir_mul = layout_ == kIrMul;
    plan_.output = outputs_.data();
    plan_.outputs = static_cast<int64_t>(outputs_.size());
    plan_.output_of = output_of_.data();
    paths.covers_x = covers("the first input", inputs_, table.dim_x);
    plan_.covers = covers("the output", reached_, table.dim_out);
    plan_.covers_weight = covers("the weights", weights_, table.dim_weight);
  }
  FullyConnectedPlanner(const FullyConnectedPlanner&) = delete;
  FullyConnectedPlanner& operator=(const FullyConnectedPlanner&) = delete;

  const FullyConnectedPlan<T>& plan() const { return plan_; }

  // Multiply-adds of one row.
  double work() const { return work_; }

 private:
  enum Layout { kAny, kMulIr, kIrMul };

  void check_mixing(const Path& path, int64_t p) const {
    EQUIGEO_CHECK(
        path.x.d % 2 == 1 && path.x.d <= 13 && path.out.d % 2 == 1 && path.out.d <= 13, "path ", p,
        ": first inputs and outputs have 1 to 13 components, an odd number");
    EQUIGEO_CHECK(
        path.y.mul <= table_.dim_weight / path.x.mul &&
            inside(path.weight, path.x.mul * path.y.mul, path.out.mul, table_.dim_weight),
        "path ", p, " leaves its rows");
  }

  // Segment must be side by side, components inside or outside, in all segments alike.
  void settle_layout(const Segment& segment, int64_t p) {
    const bool is_mul_ir = segment.step == 1 && segment.copy == segment.d;
    const bool is_ir_mul = segment.copy == 1 && segment.step == segment.mul;
    const Layout layout = is_mul_ir ? kMulIr : kIrMul;
    EQUIGEO_CHECK(is_mul_ir || is_ir_mul, "path ", p, " has a segment with gaps");
    if (segment.mul > 1 && segment.d > 1) {
      EQUIGEO_CHECK(
          layout_ == kAny || layout_ == layout, "path ", p, " has segments of two layouts");
      layout_ = layout;
    }
  }

  void add_path(const Path& path) {
    const Segment &x = path.x, &y = path.y, &out = path.out;
    ChannelwisePlan<T>& paths = plan_.paths;
    const int64_t wide = padded_size(x.mul, 1);
    const auto [segment, new_segment] =
        segment_at_.try_emplace({x.offset, x.mul, x.d}, segments_.size());
    if (new_segment) {
      segments_.push_back({x.offset, x.mul, x.d, paths.padded_x});
      paths.padded_x += wide * x.d;
      inputs_.push_back({x.offset, x.mul * x.d});
    }
    const auto [output, new_output] =
        output_at_.try_emplace({out.offset, out.mul, out.d}, outputs_.size());
    if (new_output) {
      outputs_.push_back({out.offset, out.mul, out.d, plan_.padded_outputs});
      plan_.padded_outputs += padded_size(out.mul, out.d);
      reached_.push_back({out.offset, out.mul * out.d});
    }
    weights_.push_back({path.weight, x.mul * y.mul * out.mul});
    output_of_.push_back(output->second);
    layouts_.push_back({segments_[segment->second].padded, 0, paths.matrices, new_output, true});
    paths.matrices += y.mul * x.d * out.d;
    EQUIGEO_CHECK(paths.matrices <= kMostMatrices, "the paths take too much memory");
    paths.largest_matrix = std::max(paths.largest_matrix, x.d * out.d);
    paths.largest_x = std::max(paths.largest_x, wide * x.d);
    plan_.largest_coupling = std::max(plan_.largest_coupling, wide * y.mul * out.d);
    plan_.largest_mul2 = std::max(plan_.largest_mul2, y.mul);
    work_ += 1.0 * x.mul * y.mul * out.d * (x.d + out.mul);
  }

  const PathTable<T>& table_;
  FullyConnectedPlan<T> plan_{};
  EntriesBySecond<T> by_second_;
  std::map<std::array<int64_t, 3>, int64_t> segment_at_, output_at_;
  std::vector<PathLayout> layouts_;
  std::vector<PaddedSegment> segments_, outputs_;
  std::vector<int64_t> output_of_;
  std::vector<Interval> inputs_, reached_, weights_;
  Layout layout_ = kAny;
  double work_ = 1;
};

template <class T>
void run(const FullyConnectedProduct<T>& op, const Tensor&) {
  const auto& planner = plan_of<FullyConnectedPlanner>(op.table);
  run_planned(EQUIGEO_SELECT_KERNELS(fully_connected_product_rows), op, planner, 1, kMixedRows);
}

template <class T>
void run(const FullyConnectedProductBackward<T>& op, const Tensor&) {
  const auto& planner = plan_of<FullyConnectedPlanner>(op.table);
  run_planned(
      EQUIGEO_SELECT_KERNELS(fully_connected_product_backward_rows), op, planner, 3, kMixedRows);
}

template <class T>
void run(const FullyConnectedProductDoubleBackward<T>& op, const Tensor&) {
  const auto& planner = plan_of<FullyConnectedPlanner>(op.table);
  run_planned(
      EQUIGEO_SELECT_KERNELS(fully_connected_product_double_backward_rows), op, planner, 5,
      kMixedRows);
}

}  // namespace equigeo
