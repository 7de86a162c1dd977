// Compiled once per instruction set: no torch, no C++ standard headers.
//
// A block of rows is transposed into scratch memory, one row to a lane, and all copies are coupled
// one after the other.
#include "kernels/cpu/copywise_product.h"

#include "kernels/cpu/run_blocks.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/stream.h"
#include "kernels/cpu/transpose.h"
#include "math/copy_coupling.h"

namespace equigeo {
namespace {

// Two packs a number, so that reading a term is shared; four of the smallest.
template <class T>
using Lanes16 = PackGroup<WidePack<T>, EQUIGEO_PACK_BYTES == 16 ? 4 : 2, T>;

template <class T>
class Rows {
 public:
  static constexpr int64_t kLanes = Lanes16<T>::kLanes;

  Rows(Scratch<T>& memory, int64_t dim) : data_(memory.take(size(dim))), dim_(dim) {}

  static int64_t size(int64_t dim) { return Scratch<T>::round_up(padded(dim) * kLanes); }

  // The first `count` rows of a tensor, behind which `beyond` rows of the chunk come later.
  void load(const T* rows, int64_t count, int64_t beyond) {
    constexpr int64_t kW = kWidth<WidePack<T>, T>;
    for (int64_t first = 0; first < count; first += kW) {
      const int64_t packed = count - first < kW ? count - first : kW;
      const int64_t behind = (beyond + count - first - packed) * dim_;
      load_columns(rows + first * dim_, dim_, packed, behind, data_ + first, kLanes);
    }
  }

  // The same row for all lanes.
  void spread(const T* row) {
    for (int64_t j = 0; j < dim_; ++j) {
      for (int64_t l = 0; l < kLanes; ++l) {
        data_[j * kLanes + l] = row[j];
      }
    }
  }

  // Rows are put together in a stage, for the tensor is then written from front to end.
  void store(T* rows, int64_t count, T* stage, bool stream = false) const {
    constexpr int64_t kW = kWidth<WidePack<T>, T>;
    for (int64_t first = 0; first < count; first += kW) {
      const int64_t beyond = (kLanes - first - kW) * dim_ + kW;
      store_rows(data_ + first, dim_, kW, beyond, stage + first * dim_, kLanes);
    }
    if (stream) {
      stream_row(stage, count * dim_, rows);
      return finish_streams();
    }
    copy_row(stage, count * dim_, rows);
  }
  void clear() { fill_zero(data_, dim_ * kLanes); }

  T* at(int64_t place) const { return data_ + place * kLanes; }

 private:
  T* data_;
  int64_t dim_;
};

// What both passes do: fetch a block of rows and go through the pairs of copies that are coupled.
template <class T>
class CopyPass {
 protected:
  using Group = Lanes16<T>;
  static constexpr int64_t kLanes = Group::kLanes;

  CopyPass(const CopyPlan<T>& plan, const T* weight, int64_t weight_stride, int64_t more)
      : plan_(plan),
        memory_(
            Rows<T>::size(plan.dim_x) + Rows<T>::size(plan.dim_y) + Rows<T>::size(plan.dim_weight) +
            Rows<T>::size(plan.dim_out) + Rows<T>::size(plan.largest_products) +
            Scratch<T>::round_up(stage_size(plan)) + more),
        x_(memory_, plan.dim_x),
        y_(memory_, plan.dim_y),
        weight_(memory_, plan.dim_weight),
        out_(memory_, plan.dim_out),
        products_(memory_.take(plan.largest_products * kLanes)),
        stage_(memory_.take(stage_size(plan))) {
    if (!memory_.failed() && weight != nullptr && weight_stride == 0) {
      weight_.spread(weight);
    }
  }

  template <class Op>
  void load(const Op& op, const Block& block) {
    x_.load(op.x + block.begin * plan_.dim_x, block.rows, block.beyond);
    y_.load(op.y + block.begin * plan_.dim_y, block.rows, block.beyond);
    if (op.weight != nullptr && op.weight_stride > 0) {
      weight_.load(op.weight + block.begin * plan_.dim_weight, block.rows, block.beyond);
    }
  }

  // Call run(group, u, v, copy of the output) for all pairs of copies that are coupled.
  template <class Run>
  void for_pairs(const Run& run) const {
    for (int64_t g = 0; g < plan_.groups; ++g) {
      const CopyGroup& group = plan_.group[g];
      for (int64_t u = 0; u < group.x.mul; ++u) {
        if (group.matched) {
          run(group, u, u, u);
          continue;
        }
        for (int64_t v = 0; v < group.y.mul; ++v) {
          run(group, u, v, u * group.y.mul + v);
        }
      }
    }
  }

  static T* at(const Rows<T>& rows, const Segment& segment, int64_t copy) {
    return rows.at(segment.offset + copy * segment.copy);
  }

  // put(row, sum) for every component that two copies make.
  template <class Put>
  void couple(const CopyGroup& group, int64_t u, int64_t v, const Put& put) const {
    component_products<Group>(
        at(x_, group.x, u), group.x.d, group.x.step * kLanes, at(y_, group.y, v), group.y.d,
        group.y.step * kLanes, products_);
    sparse_product<Group>(plan_.couple, group.couple, products_, put);
  }

  // Of the longest rows, behind which a register may be written.
  static int64_t stage_size(const CopyPlan<T>& plan) {
    const int64_t inputs = plan.dim_x > plan.dim_y ? plan.dim_x : plan.dim_y;
    const int64_t others = plan.dim_out > plan.dim_weight ? plan.dim_out : plan.dim_weight;
    return (inputs > others ? inputs : others) * kLanes + kWidth<WidePack<T>, T>;
  }

  const CopyPlan<T>& plan_;
  Scratch<T> memory_;
  Rows<T> x_, y_, weight_, out_;
  T* products_;
  T* stage_;
};

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
    grad_weight_.clear();
    this->for_pairs([&](const CopyGroup& group, int64_t u, int64_t v, int64_t copy) {
      if (op_.weight != nullptr) {
        grade_weights(group, u, v, copy);
      }
      for (int64_t p = group.path; p < group.path + group.paths; ++p) {
        arrive(plan_.path[p], copy);
      }
      grade_inputs(group, u, v);
    });
    grad_x_.store(op_.grad_x + block.begin * plan_.dim_x, block.rows, this->stage_);
    grad_y_.store(op_.grad_y + block.begin * plan_.dim_y, block.rows, this->stage_);
    if (op_.weight != nullptr) {
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

  // Gradients of the sums of a path.
  void arrive(const CopyPath& path, int64_t copy) {
    const T* from = at(out_, path.out, copy);
    const T* weight = op_.weight ? weight_.at(path.weight + copy) : nullptr;
    T* to = slopes_ + path.component * kLanes;
    for (int64_t k = 0; k < path.out.d; ++k) {
      Group grad = Group::load(from + k * path.out.step * kLanes);
      if (weight != nullptr) {
        grad = grad * Group::load(weight);
      }
      grad.store(to + k * kLanes);
    }
  }

  void grade_inputs(const CopyGroup& group, int64_t u, int64_t v) {
    T* products = this->products_;
    sparse_product<Group>(
        plan_.back, group.back, slopes_,
        [&](const SparseRow& row, const Group& sum) { sum.store(products + row.out * kLanes); });
    product_gradients<Group>(
        products, at(this->x_, group.x, u), group.x.d, group.x.step * kLanes,
        at(this->y_, group.y, v), group.y.d, group.y.step * kLanes, at(grad_x_, group.x, u),
        at(grad_y_, group.y, v));
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
