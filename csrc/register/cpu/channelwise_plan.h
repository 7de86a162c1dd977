// The table of a channelwise product, checked and in the form of the CPU kernels.
#pragma once

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/cpu/channelwise_plan.h"
#include "register/check.h"
#include "register/cpu/check_paths.h"

namespace equigeo {

// Numbers in the matrices of all paths, so that memory for them can be asked for.
constexpr int64_t kMostMatrices = int64_t{1} << 44;

// Elements of a padded segment: whole registers of copies, however wide.
inline int64_t padded_size(int64_t mul, int64_t d) { return (mul + 15) / 16 * 16 * d; }

using Interval = std::pair<int64_t, int64_t>;  // offset and size

// Whether intervals are all of a row; raises for those that overlap, whose gradients are written
// and not added up.
inline bool covers(
    const char* name, std::vector<Interval>& intervals, int64_t size, const char* whose = "paths") {
  std::sort(intervals.begin(), intervals.end());
  int64_t end = 0, covered = 0;
  for (const Interval& interval : intervals) {
    EQUIGEO_CHECK(interval.first >= end, whose, " must not overlap in ", name);
    end = interval.first + interval.second;
    covered += interval.second;
  }
  return covered == size;
}

// Coefficients sorted, in each path, by component of the second input.
template <class T>
class EntriesBySecond {
 public:
  void sort(ChannelwisePlan<T>& plan) {
    std::vector<int64_t> order(plan.coefficients);
    std::iota(order.begin(), order.end(), 0);
    for (int64_t p = 0; p < plan.count; ++p) {
      const Path& path = plan.path[p];
      std::stable_sort(
          order.begin() + path.first, order.begin() + path.last,
          [&](int64_t a, int64_t b) { return plan.entry[a].j < plan.entry[b].j; });
    }
    for (const int64_t n : order) {
      entries_.push_back(plan.entry[n]);
      values_.push_back(plan.value[n]);
    }
    plan.entry_by_second = entries_.data();
    plan.value_by_second = values_.data();
  }

 private:
  std::vector<Entry> entries_;
  std::vector<T> values_;
};

// Checks every number of a table and lays out the padded rows.
template <class T>
class ChannelwisePlanner {
 public:
  explicit ChannelwisePlanner(const PathTable<T>& table) {
    static_cast<PathTable<T>&>(plan_) = table;
    for (int64_t p = 0; p < table.count; ++p) {
      check_channelwise_path(table, p);
      add_path(p);
    }
    by_second_.sort(plan_);
    plan_.layout = layouts_.data();
    plan_.segment = segments_.data();
    plan_.segments = static_cast<int64_t>(segments_.size());
    plan_.covers = covered_ == table.dim_out;
    int64_t covered_x = 0;
    for (const PaddedSegment& segment : segments_) {
      covered_x += segment.mul * segment.d;
    }
    plan_.covers_x = covered_x == table.dim_x;
    plan_.covers_weight = covered_weight_ == table.dim_weight;
  }
  ChannelwisePlanner(const ChannelwisePlanner&) = delete;
  ChannelwisePlanner& operator=(const ChannelwisePlanner&) = delete;

  const ChannelwisePlan<T>& plan() const { return plan_; }

  // What gradients want besides: values may be read twice.
  void check_gradients() {
    if (has_gradients_) {
      return;
    }
    std::vector<Interval> inputs, weights;
    for (const PaddedSegment& segment : segments_) {
      inputs.push_back({segment.offset, segment.mul * segment.d});
    }
    for (int64_t p = 0; p < plan_.count; ++p) {
      const Path& path = plan_.path[p];
      if (path.weight >= 0) {
        weights.push_back({path.weight, path.x.mul * path.y.mul});
      }
    }
    covers("the first input", inputs, plan_.dim_x);
    covers("the weights", weights, plan_.dim_weight);
    has_gradients_ = true;
  }

  // Multiply-adds of one row.
  double work() const { return work_; }

 private:
  void add_path(int64_t p) {
    const Path& path = plan_.path[p];
    const int64_t mul = path.x.mul;
    const PaddedSegment& x = segment_of(path.x, p);
    const bool first = p == 0 || path.out.offset != plan_.path[p - 1].out.offset;
    EQUIGEO_CHECK(
        first ? path.out.offset >= end_
              : mul == plan_.path[p - 1].x.mul && path.out.d == plan_.path[p - 1].out.d,
        "paths must be sorted by their segments of the output, which must not overlap");
    if (first) {
      layouts_.push_back({x.padded, plan_.padded_out, plan_.matrices, true, true});
      plan_.padded_out += padded_size(mul, path.out.d);
      covered_ += mul * path.out.d;
      end_ = path.out.offset + mul * path.out.d;
    } else {
      layouts_.back().last_into_output = false;
      layouts_.push_back({x.padded, layouts_.back().out, plan_.matrices, false, true});
    }
    plan_.matrices += path.y.mul * path.x.d * path.out.d;
    EQUIGEO_CHECK(plan_.matrices <= kMostMatrices, "the paths take too much memory");
    plan_.largest_matrix = std::max(plan_.largest_matrix, path.x.d * path.out.d);
    plan_.largest_output = std::max(plan_.largest_output, padded_size(mul, path.out.d));
    plan_.largest_x = std::max(plan_.largest_x, padded_size(mul, path.x.d));
    covered_weight_ += path.weight < 0 ? 0 : mul * path.y.mul;
    work_ += 1.0 * mul * path.y.mul * path.x.d * path.out.d;
  }

  // The segment of the first input in padded rows, which paths may share.
  const PaddedSegment& segment_of(const Segment& x, int64_t p) {
    const auto [found, is_new] = segment_at_.try_emplace(x.offset, segments_.size());
    if (is_new) {
      segments_.push_back({x.offset, x.mul, x.d, plan_.padded_x});
      plan_.padded_x += padded_size(x.mul, x.d);
    }
    const PaddedSegment& segment = segments_[found->second];
    EQUIGEO_CHECK(
        segment.mul == x.mul && segment.d == x.d, "path ", p,
        " reads a segment that another path divides otherwise");
    return segment;
  }

  ChannelwisePlan<T> plan_{};
  std::vector<PathLayout> layouts_;
  std::vector<PaddedSegment> segments_;
  std::map<int64_t, int64_t> segment_at_;
  EntriesBySecond<T> by_second_;
  int64_t covered_ = 0, covered_weight_ = 0, end_ = 0;
  double work_ = 1;
  bool has_gradients_ = false;  // whether check_gradients() has passed
};

}  // namespace equigeo
