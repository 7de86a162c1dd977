// Passes over rows of copywise products.
//
// A block of rows is transposed into scratch memory, one row to a lane, and all copies are coupled
// one after the other.
#pragma once

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

// What all passes do: fetch a block of rows and go through the pairs of copies that are coupled.
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

  // What arrives at the products of components of a pair, through the weights of its paths where
  // they have any. `slopes` is scratch memory for what arrives at the paths.
  void arrive(const CopyGroup& group, int64_t copy, const Rows<T>* weight, T* slopes) const {
    for (int64_t p = group.path; p < group.path + group.paths; ++p) {
      const CopyPath& path = plan_.path[p];
      const T* from = at(out_, path.out, copy);
      const T* factor = weight ? weight->at(path.weight + copy) : nullptr;
      T* to = slopes + path.component * kLanes;
      for (int64_t k = 0; k < path.out.d; ++k) {
        Group grad = Group::load(from + k * path.out.step * kLanes);
        if (factor != nullptr) {
          grad = grad * Group::load(factor);
        }
        grad.store(to + k * kLanes);
      }
    }
    T* products = products_;
    sparse_product<Group>(
        plan_.back, group.back, slopes,
        [&](const SparseRow& row, const Group& sum) { sum.store(products + row.out * kLanes); });
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

}  // namespace
}  // namespace equigeo
