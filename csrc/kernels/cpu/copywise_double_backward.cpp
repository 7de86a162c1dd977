// Compiled once per instruction set: no torch, no C++ standard headers.
//
// The product and what arrives at it make one form F(g, x, y, w), linear in each argument, whose
// derivatives are the gradients. With couplings c of products x_i y_j, it changes along tangents a
// of x, b of y and s of the weights by
//
//   sum g (w t + s c),   where t are couplings of a_i y_j + x_i b_j.
//
// So each pair of copies is coupled once along a and b, and once more where weights have tangents.
#include "kernels/cpu/copy_pass.h"

namespace equigeo {
namespace {

template <class T>
class DoubleBackward : CopyPass<T> {
  using Base = CopyPass<T>;
  using Base::at, Base::plan_, Base::weight_, Base::products_, Base::stage_, Base::kLanes;
  using typename Base::Group;

 public:
  explicit DoubleBackward(const PlannedCopywiseProductDoubleBackward<T>& op)
      : Base(op.plan, op.weight, op.weight_stride, size(op.plan)),
        op_(op),
        moves_(op.x_tangent != nullptr || op.y_tangent != nullptr),
        x_tangent_(this->memory_, op.plan.dim_x),
        y_tangent_(this->memory_, op.plan.dim_y),
        weight_tangent_(this->memory_, op.plan.dim_weight),
        to_grad_(this->memory_, op.plan.dim_out),
        to_x_(this->memory_, op.plan.dim_x),
        to_y_(this->memory_, op.plan.dim_y),
        to_weight_(this->memory_, op.plan.dim_weight),
        slopes_(this->memory_.take(op.plan.largest_outputs * kLanes)) {}

  bool failed() const { return this->memory_.failed(); }

  void run(const Block& block) {
    load(block);
    to_x_.clear();
    to_y_.clear();
    to_weight_.clear();
    if (!plan_.covers || !moves_) {
      to_grad_.clear();
    }
    this->for_pairs([&](const CopyGroup& group, int64_t u, int64_t v, int64_t copy) {
      const Pair pair{group, u, v, copy};
      if (moves_) {
        along_inputs(pair);
      }
      if (op_.weight_tangent != nullptr) {
        along_weights(pair);
      }
    });
    store(block);
  }

 private:
  struct Pair {
    const CopyGroup& group;
    int64_t u, v, copy;
  };

  static int64_t size(const CopyPlan<T>& plan) {
    return 2 * Rows<T>::size(plan.dim_x) + 2 * Rows<T>::size(plan.dim_y) +
           2 * Rows<T>::size(plan.dim_weight) + Rows<T>::size(plan.dim_out) +
           Rows<T>::size(plan.largest_outputs);
  }

  void load(const Block& block) {
    Base::load(op_, block);
    this->out_.load(op_.grad + block.begin * plan_.dim_out, block.rows, block.beyond);
    load(op_.x_tangent, plan_.dim_x, block, x_tangent_);
    load(op_.y_tangent, plan_.dim_y, block, y_tangent_);
    load(op_.weight_tangent, plan_.dim_weight, block, weight_tangent_);
  }

  static void load(const T* from, int64_t dim, const Block& block, Rows<T>& rows) {
    if (from != nullptr) {
      rows.load(from + block.begin * dim, block.rows, block.beyond);
    }
  }

  void store(const Block& block) const {
    store(to_grad_, op_.to_grad, plan_.dim_out, block, op_.stream);
    store(to_x_, op_.to_x, plan_.dim_x, block);
    store(to_y_, op_.to_y, plan_.dim_y, block);
    store(to_weight_, op_.to_weight, plan_.dim_weight, block);
  }

  void store(
      const Rows<T>& rows, T* to, int64_t dim, const Block& block, bool stream = false) const {
    if (to != nullptr) {
      rows.store(to + block.begin * dim, block.rows, stage_, stream);
    }
  }

  // What g w t gives.
  void along_inputs(const Pair& pair) {
    const CopyGroup& group = pair.group;
    const T* a = op_.x_tangent ? at(x_tangent_, group.x, pair.u) : nullptr;
    const T* b = op_.y_tangent ? at(y_tangent_, group.y, pair.v) : nullptr;
    if (op_.to_grad != nullptr || op_.to_weight != nullptr) {
      product_tangents<Group>(
          at(this->x_, group.x, pair.u), a, group.x.d, group.x.step * kLanes,
          at(this->y_, group.y, pair.v), b, group.y.d, group.y.step * kLanes, products_);
      sparse_product<Group>(
          plan_.couple, group.couple, products_, [&](const SparseRow& row, const Group& sum) {
            if (op_.to_weight != nullptr) {
              add(sum, this->out_.at(row.out + pair.copy * row.stride),
                  to_weight_.at(row.weight + pair.copy));
            }
            if (op_.to_grad != nullptr) {
              give(row, pair.copy, sum);
            }
          });
    }
    T* to_x = op_.to_x && b ? at(to_x_, group.x, pair.u) : nullptr;
    T* to_y = op_.to_y && a ? at(to_y_, group.y, pair.v) : nullptr;
    if (to_x != nullptr || to_y != nullptr) {
      this->arrive(group, pair.copy, op_.weight ? &weight_ : nullptr, slopes_);
      product_gradients<Group>(
          products_, a, group.x.d, group.x.step * kLanes, b, group.y.d, group.y.step * kLanes, to_x,
          to_y);
    }
  }

  // And g s c.
  void along_weights(const Pair& pair) {
    const CopyGroup& group = pair.group;
    if (op_.to_grad != nullptr) {
      this->couple(group, pair.u, pair.v, [&](const SparseRow& row, const Group& sum) {
        add(sum, weight_tangent_.at(row.weight + pair.copy),
            to_grad_.at(row.out + pair.copy * row.stride));
      });
    }
    if (op_.to_x != nullptr || op_.to_y != nullptr) {
      this->arrive(group, pair.copy, &weight_tangent_, slopes_);
      product_gradients<Group>(
          products_, at(this->x_, group.x, pair.u), group.x.d, group.x.step * kLanes,
          at(this->y_, group.y, pair.v), group.y.d, group.y.step * kLanes,
          op_.to_x ? at(to_x_, group.x, pair.u) : nullptr,
          op_.to_y ? at(to_y_, group.y, pair.v) : nullptr);
    }
  }

  // A sum to the output, times its weight.
  void give(const SparseRow& row, int64_t copy, Group sum) {
    T* to = to_grad_.at(row.out + copy * row.stride);
    if (op_.weight != nullptr) {
      sum = sum * Group::load(weight_.at(row.weight + copy));
    }
    if (!plan_.disjoint) {
      sum.add(T(1), Group::load(to));
    }
    sum.store(to);
  }

  static void add(const Group& sum, const T* factor, T* into) {
    Group total = Group::load(into);
    total.add(sum, Group::load(factor));
    total.store(into);
  }

  const PlannedCopywiseProductDoubleBackward<T>& op_;
  const bool moves_;  // whether couplings do
  Rows<T> x_tangent_, y_tangent_, weight_tangent_, to_grad_, to_x_, to_y_, to_weight_;
  T* slopes_;
};

template <class T>
int product_double_backward_rows(
    const PlannedCopywiseProductDoubleBackward<T>& op, int64_t begin, int64_t end) {
  return run_blocks<DoubleBackward<T>>(op, begin, end, Lanes16<T>::kLanes);
}

}  // namespace

const Kernels<PlannedCopywiseProductDoubleBackward> EQUIGEO_FOR_ISA(
    copywise_product_double_backward_rows) = {
    product_double_backward_rows<float>, product_double_backward_rows<double>};

}  // namespace equigeo
