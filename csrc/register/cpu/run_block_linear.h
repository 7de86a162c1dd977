// Running linear maps by blocks on the CPU, their blocks checked and in the form of the kernels.
#pragma once

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/cpu/block_linear.h"
#include "math/path_table.h"
#include "register/cpu/channelwise_plan.h"
#include "register/cpu/result_memory.h"
#include "register/cpu/run_rows.h"

namespace equigeo {

// Raises for blocks that leave their rows or have too many components.
template <class T>
void check_blocks(const LinearBlocks<T>& blocks) {
  constexpr int64_t kMostOfIrrep = 1 << 10;
  for (int64_t b = 0; b < blocks.count; ++b) {
    const LinearBlock& block = blocks.block[b];
    EQUIGEO_CHECK(block.d < kMostOfIrrep, "block ", b, " has too many components");
    EQUIGEO_CHECK(
        inside(block.in, block.mul, block.d, blocks.dim_in) &&
            inside(block.out, block.mul_out, block.d, blocks.dim_out) &&
            inside(block.weight, block.mul, block.mul_out, blocks.dim_weight),
        "block ", b, " leaves its rows");
  }
}

// Blocks sorted by what they add to, or by what their transposes do.
template <class T>
class LinearPlanner {
 public:
  LinearPlanner(const LinearBlocks<T>& blocks, bool transposed) {
    std::vector<int64_t> order(blocks.count);
    std::iota(order.begin(), order.end(), 0);
    const auto target = [&](int64_t b) {
      return transposed ? blocks.block[b].in : blocks.block[b].out;
    };
    std::stable_sort(
        order.begin(), order.end(), [&](int64_t a, int64_t b) { return target(a) < target(b); });
    for (const int64_t b : order) {
      LinearBlock block = blocks.block[b];
      if (transposed) {
        std::swap(block.in, block.out);
        std::swap(block.mul, block.mul_out);
      }
      add(block, blocks.factor[b]);
    }
    plan_.block = blocks_.data();
    plan_.factor = factors_.data();
    plan_.count = static_cast<int64_t>(blocks_.size());
    plan_.ir_mul = blocks.ir_mul;
    plan_.covers = covered_ == (transposed ? blocks.dim_in : blocks.dim_out);
  }
  LinearPlanner(const LinearPlanner&) = delete;
  LinearPlanner& operator=(const LinearPlanner&) = delete;

  const LinearPlan<T>& plan() const { return plan_; }

  // Multiply-adds of one row.
  double work() const { return work_; }

  // All parts of the matrices whose gradients are one task. Raises for weights of several blocks,
  // whose gradients would be written and not added up; returns whether the blocks reach all
  // weights.
  bool weight_tasks(int64_t dim_weight, std::vector<WeightTask>& tasks) const {
    std::vector<Interval> weights;
    for (int64_t b = 0; b < plan_.count; ++b) {
      const LinearBlock& block = blocks_[b].given;
      weights.push_back({block.weight, block.mul * block.mul_out});
      for (int64_t first = 0; first < block.mul; first += kWeightRows) {
        tasks.push_back({b, first});
      }
    }
    return covers("the weights", weights, dim_weight, "blocks");
  }

 private:
  void add(const LinearBlock& block, T factor) {
    const bool first = blocks_.empty() || block.out != blocks_.back().given.out;
    if (first) {
      EQUIGEO_CHECK(block.out >= end_, "blocks must add to the same segment or to others");
      covered_ += block.mul_out * block.d;
      end_ = block.out + block.mul_out * block.d;
    } else {
      const LinearBlock& last = blocks_.back().given;
      EQUIGEO_CHECK(
          block.mul_out == last.mul_out && block.d == last.d,
          "blocks must add to the same segment or to others");
      blocks_.back().last = false;
    }
    blocks_.push_back({block, plan_.matrices, first, true});
    factors_.push_back(factor);
    plan_.matrices += block.mul * padded_size(block.mul_out, 1);
    plan_.largest_d = std::max(plan_.largest_d, block.d);
    plan_.largest_in = std::max(plan_.largest_in, padded_size(block.mul, 1));
    plan_.largest_out = std::max(plan_.largest_out, padded_size(block.mul_out, 1));
    work_ += 1.0 * block.mul * block.mul_out * block.d;
  }

  LinearPlan<T> plan_{};
  std::vector<MatrixBlock> blocks_;
  std::vector<T> factors_;
  int64_t covered_ = 0, end_ = 0;
  double work_ = 1;
};

// out = in @ matrices, group by group.
template <class S>
void map_groups(
    const LinearPlanner<Compute<S>>& planner,
    const BlockLinear<S>& op,
    bool transposed,
    const Tensor& like) {
  using T = Compute<S>;
  const int64_t group = op.rows / op.groups;
  const int64_t dim_in = transposed ? op.blocks.dim_out : op.blocks.dim_in;
  const int64_t dim_out = transposed ? op.blocks.dim_in : op.blocks.dim_out;
  const LinearPlan<T>& plan = planner.plan();
  const ScalarType dtype = sizeof(T) == sizeof(float) ? ScalarType::Float : ScalarType::Double;
  const Tensor matrices = new_tensor(like, {op.groups, plan.matrices}, dtype);
  const PackMatrices<S> pack{plan, op.weight, op.blocks.dim_weight, transposed, write<T>(matrices)};
  run_rows(
      EQUIGEO_SELECT_KERNELS(pack_matrices_groups), pack, op.groups,
      1.0 * op.groups * plan.matrices);
  const MapRows<S> map{plan, op.x, dim_in, read<T>(matrices), group, op.out, dim_out};
  run_rows(EQUIGEO_SELECT_KERNELS(map_rows), map, op.rows, op.rows * planner.work(), kMappedRows);
}

template <class S>
void run(const BlockLinear<S>& op, const Tensor& like) {
  check_blocks(op.blocks);
  const LinearPlanner<Compute<S>> planner(op.blocks, false);
  map_groups(planner, op, false, like);
}

template <class S>
void differentiate_by_weight(const BlockLinearBackward<S>& op) {
  const LinearPlanner<Compute<S>> planner(op.blocks, false);
  std::vector<WeightTask> tasks;
  if (!planner.weight_tasks(op.blocks.dim_weight, tasks)) {
    std::fill_n(op.grad_weight, op.groups * op.blocks.dim_weight, S{});
  }
  const LinearBlocks<Compute<S>>& blocks = op.blocks;
  const int64_t group = op.rows / op.groups, count = static_cast<int64_t>(tasks.size());
  const LinearWeightGradient<S> gradient{planner.plan(), tasks.data(),     count,          op.x,
                                         blocks.dim_in,  op.grad,          blocks.dim_out, group,
                                         op.grad_weight, blocks.dim_weight};
  run_rows(
      EQUIGEO_SELECT_KERNELS(linear_weight_gradient_tasks), gradient, op.groups * count,
      op.rows * planner.work());
}

template <class S>
void run(const BlockLinearBackward<S>& op, const Tensor& like) {
  check_blocks(op.blocks);
  if (op.grad_weight != nullptr) {
    differentiate_by_weight(op);
  }
  if (op.grad_x != nullptr && op.rows > 0) {
    const LinearPlanner<Compute<S>> planner(op.blocks, true);
    const BlockLinear<S> transposed{op.blocks, op.grad, op.weight, op.rows, op.groups, op.grad_x};
    map_groups(planner, transposed, true, like);
  }
}

}  // namespace equigeo
