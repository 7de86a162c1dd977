// Compiled once per instruction set: no torch, no C++ standard headers.
#include "kernels/cpu/copy_pass.h"

namespace equigeo {
namespace {

template <class T>
class Forward : CopyPass<T> {
  using Base = CopyPass<T>;
  using Base::plan_, Base::weight_, Base::out_, Base::kLanes;
  using typename Base::Group;

 public:
  explicit Forward(const PlannedCopywiseProduct<T>& op)
      : Base(op.plan, op.weight, op.weight_stride, 0), op_(op) {}

  bool failed() const { return this->memory_.failed(); }

  void run(const Block& block) {
    this->load(op_, block);
    if (!plan_.covers) {
      out_.clear();
    }
    this->for_pairs([&](const CopyGroup& group, int64_t u, int64_t v, int64_t copy) {
      this->couple(group, u, v, [&](const SparseRow& row, Group sum) {
        T* to = out_.at(row.out + copy * row.stride);
        if (op_.weight != nullptr) {
          sum = sum * Group::load(weight_.at(row.weight + copy));
        }
        if (!plan_.disjoint) {
          sum.add(T(1), Group::load(to));
        }
        sum.store(to);
      });
    });
    out_.store(op_.out + block.begin * plan_.dim_out, block.rows, this->stage_, op_.stream);
  }

 private:
  const PlannedCopywiseProduct<T>& op_;
};

template <class T>
class Backward : CopyPass<T> {
  using Base = CopyPass<T>;
  using Base::at, Base::plan_, Base::weight_, Base::out_, Base::kLanes;
  using typename Base::Group;

 public:
  explicit Backward(const PlannedCopywiseProductBackward<T>& op)
      : Base(
            op.plan,
            op.weight,
            op.weight_stride,
            Rows<T>::size(op.plan.dim_x) + Rows<T>::size(op.plan.dim_y) +
                Rows<T>::size(op.plan.dim_weight) + Rows<T>::size(op.plan.largest_outputs)),
        op_(op),
        grad_x_(this->memory_, op.plan.dim_x),
        grad_y_(this->memory_, op.plan.dim_y),
        grad_weight_(this->memory_, op.plan.dim_weight),
        slopes_(this->memory_.take(op.plan.largest_outputs * kLanes)) {}

  bool failed() const { return this->memory_.failed(); }

  void run(const Block& block) {
    this->load(op_, block);
    out_.load(op_.grad + block.begin * plan_.dim_out, block.rows, block.beyond);
    grad_x_.clear();
    grad_y_.clear();
    if (op_.grad_weight != nullptr) {
      grad_weight_.clear();
    }
    this->for_pairs([&](const CopyGroup& group, int64_t u, int64_t v, int64_t copy) {
      if (op_.grad_weight != nullptr) {
        grade_weights(group, u, v, copy);
      }
      this->arrive(group, copy, op_.weight ? &weight_ : nullptr, slopes_);
      product_gradients<Group>(
          this->products_, at(this->x_, group.x, u), group.x.d, group.x.step * kLanes,
          at(this->y_, group.y, v), group.y.d, group.y.step * kLanes, at(grad_x_, group.x, u),
          at(grad_y_, group.y, v));
    });
    grad_x_.store(op_.grad_x + block.begin * plan_.dim_x, block.rows, this->stage_);
    grad_y_.store(op_.grad_y + block.begin * plan_.dim_y, block.rows, this->stage_);
    if (op_.grad_weight != nullptr) {
      grad_weight_.store(
          op_.grad_weight + block.begin * plan_.dim_weight, block.rows, this->stage_);
    }
  }

 private:
  void grade_weights(const CopyGroup& group, int64_t u, int64_t v, int64_t copy) {
    this->couple(group, u, v, [&](const SparseRow& row, const Group& sum) {
      T* into = grad_weight_.at(row.weight + copy);
      Group slope = Group::load(into);
      slope.add(sum, Group::load(out_.at(row.out + copy * row.stride)));
      slope.store(into);
    });
  }

  const PlannedCopywiseProductBackward<T>& op_;
  Rows<T> grad_x_, grad_y_, grad_weight_;
  T* slopes_;
};

template <class T>
int product_rows(const PlannedCopywiseProduct<T>& op, int64_t begin, int64_t end) {
  return run_blocks<Forward<T>>(op, begin, end, Lanes16<T>::kLanes);
}

template <class T>
int product_backward_rows(const PlannedCopywiseProductBackward<T>& op, int64_t begin, int64_t end) {
  return run_blocks<Backward<T>>(op, begin, end, Lanes16<T>::kLanes);
}

}  // namespace

const Kernels<PlannedCopywiseProduct> EQUIGEO_FOR_ISA(copywise_product_rows) = {
    product_rows<float>, product_rows<double>};
const Kernels<PlannedCopywiseProductBackward> EQUIGEO_FOR_ISA(copywise_product_backward_rows) = {
    product_backward_rows<float>, product_backward_rows<double>};

}  // namespace equigeo
