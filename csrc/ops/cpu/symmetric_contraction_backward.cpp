// Compiled once per instruction set: no torch, no C++ standard headers.
#include "ops/cpu/symmetric_contraction.h"

#include "math/edges.h"
#include "ops/cpu/contraction_rows.h"

namespace equigeo {
namespace {

// The operands of one row of which gradients are taken, and maybe their tangents.
template <class Number, class T>
struct Operand {
  Components<const T> value;

  EQUIGEO_HOST_DEVICE Source<Number, T> at(int64_t u) const { return {packs_at<Number>(value, u)}; }
};

template <class Pack, class T>
struct Operand<Dual<Pack>, T> {
  Components<const T> value, slope;

  EQUIGEO_HOST_DEVICE Source<Dual<Pack>, T> at(int64_t u) const {
    return {packs_at<Pack>(value, u), packs_at<Pack>(slope, u)};
  }
};

template <class Number, bool Full, class T>
struct BackwardBlock {
  using Pack = WidePack<T>;
  const Polynomials<T>& table;
  T* nodes;
  T* slopes;
  Operand<Number, T> grad, x, weight;
  Components<const T> to_grad, to_x, to_weight;

  template <int N>
  void at(int64_t u) const {
    using Array = NodeArray<Number, N, N * kNumber<Number, T>, T>;
    const Array array{nodes}, slope{slopes};
    make_nodes(table, x.at(u), array);
    contract_backward<Full>(
        table, array, slope, grad.at(u), weight.at(u), Sink<Pack, T>{packs_at<Pack>(to_grad, u)},
        Sink<Pack, T>{packs_at<Pack>(to_weight, u)});
    const Sink<Pack, T> sink{packs_at<Pack>(to_x, u)};
    for (int64_t i = 0; i < table.variables; ++i) {
      EQUIGEO_UNROLL
      for (int n = 0; n < N; ++n) {
        sink.store(i, n, slope.load(1 + i, n));
      }
    }
  }
};

template <class Number, bool Full, class T>
class Backward {
 public:
  using Op = SymmetricContractionGradients<T>;

  explicit Backward(const Op& op)
      : op_(op),
        most_(packs_together(2 * op.table.nodes * kNumber<Number, T> * sizeof(T))),
        array_(most_ * op.table.nodes * kNumber<Number, T>),
        memory_(
            2 * Scratch<T>::round_up(array_) + 3 * RowScratch<T>::size(op.in, op.channels) +
            3 * RowScratch<T>::size(op.out, op.channels) +
            3 * WeightScratch<T>::size(op.table.weights, op.channels)),
        nodes_(memory_.take(array_)),
        slopes_(memory_.take(array_)),
        grad_{{op.out, op.channels, memory_}, {op.out, op.channels, memory_}},
        x_{{op.in, op.channels, memory_}, {op.in, op.channels, memory_}},
        weight_{{op.table.weights, op.channels, memory_}, {op.table.weights, op.channels, memory_}},
        to_grad_(op.out, op.channels, memory_),
        to_x_(op.in, op.channels, memory_),
        to_weight_(memory_.take(WeightScratch<T>::size(op.table.weights, op.channels))) {}

  bool failed() const { return memory_.failed(); }

  int run(int64_t number) {
    const Run run = find_run(op_.ptr, op_.sets, number);
    const int64_t stride = padded(op_.channels), weights = op_.table.weights;
    if (Full) {
      fill_zero(to_weight_, weights * stride);
    }
    int stray = 0;
    const Index order{op_.order, op_.rows, &stray};
    for (int64_t k = run.begin; k < run.end; ++k) {
      row(order[k], run.set);
    }
    if (Full) {
      T* into = run.alone ? op_.to_weight + run.set * weights * op_.channels
                          : op_.partial + number * weights * op_.channels;
      put_back(to_weight_, stride, true, op_.channels, weights, into);
    }
    return stray ? kStrayIndex : 0;
  }

 private:
  static constexpr bool kDual = sizeof(Number) > sizeof(WidePack<T>);

  template <class Rows>
  Operand<Number, T> load(Rows& rows, const T* value, const T* tangent, int64_t offset) {
    if constexpr (kDual) {
      return {rows[0].load(value + offset), rows[1].load(tangent + offset)};
    } else {
      return {rows[0].load(value + offset)};
    }
  }

  void row(int64_t r, int64_t set) {
    const int64_t at_out = r * op_.channels * op_.table.components;
    const int64_t at_in = r * op_.channels * op_.table.variables;
    T* to_grad = Full ? op_.to_grad + at_out : nullptr;
    Operand<Number, T> weight{weight_[0].load(op_.weight, set)};
    if constexpr (kDual) {
      weight.slope = weight_[1].load(op_.weight_tangent, set);
    }
    const Components<const T> unused{to_weight_, 0};
    const BackwardBlock<Number, Full, T> block{
        op_.table,
        nodes_,
        slopes_,
        load(grad_, op_.grad, op_.grad_tangent, at_out),
        load(x_, op_.x, op_.x_tangent, at_in),
        weight,
        Full ? to_grad_.open(to_grad) : unused,
        to_x_.open(op_.to_x + at_in),
        {to_weight_, padded(op_.channels)}};
    for_channels<T>(padded(op_.channels), most_, block);
    to_x_.store(op_.to_x + at_in);
    if (Full) {
      to_grad_.store(to_grad);
    }
  }

  const Op& op_;
  int most_;
  int64_t array_;
  Scratch<T> memory_;
  T* nodes_;
  T* slopes_;
  RowScratch<T> grad_[2], x_[2];
  WeightScratch<T> weight_[2];
  RowScratch<T> to_grad_, to_x_;
  T* to_weight_;
};

template <class Number, bool Full, class T>
int backward_runs(const SymmetricContractionGradients<T>& op, int64_t begin, int64_t end) {
  Backward<Number, Full, T> pass(op);
  if (pass.failed()) {
    return kOutOfMemory;
  }
  int status = 0;
  for (int64_t number = begin; number < end; ++number) {
    status |= pass.run(number);
  }
  return status;
}

template <class T>
int runs(const SymmetricContractionGradients<T>& op, int64_t begin, int64_t end) {
  using Pack = WidePack<T>;
  if (op.x_tangent != nullptr) {
    return backward_runs<Dual<Pack>, true>(op, begin, end);
  }
  return op.to_grad == nullptr ? backward_runs<Pack, false>(op, begin, end)
                               : backward_runs<Pack, true>(op, begin, end);
}

// Add up the runs of sets that have several; one item for each weight of each set.
template <class T>
int sums(const SymmetricContractionGradients<T>& op, int64_t begin, int64_t end) {
  for (int64_t item = begin; item < end; ++item) {
    const int64_t set = item / op.table.weights, k = item % op.table.weights;
    const int64_t count = op.ptr[set + 1] - op.ptr[set];
    if (count <= kRowsOfRun) {
      continue;
    }
    T* into = op.to_weight + item * op.channels;
    fill_zero(into, op.channels);
    const int64_t first = first_run(op.ptr, set);
    for (int64_t n = first; n < first + (count + kRowsOfRun - 1) / kRowsOfRun; ++n) {
      const T* from = op.partial + (n * op.table.weights + k) * op.channels;
      for (int64_t u = 0; u < op.channels; ++u) {
        into[u] += from[u];
      }
    }
  }
  return 0;
}

}  // namespace

const Kernels<SymmetricContractionGradients> EQUIGEO_FOR_ISA(symmetric_contraction_runs) = {
    runs<float>, runs<double>};
const Kernels<SymmetricContractionGradients> EQUIGEO_FOR_ISA(symmetric_contraction_sums) = {
    sums<float>, sums<double>};

}  // namespace equigeo
