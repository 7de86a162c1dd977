// Compiled once per instruction set: no torch, no C++ standard headers.
#include "kernels/cpu/contraction_rows.h"
#include "kernels/cpu/kernels.h"
#include "math/edges.h"

namespace equigeo {
namespace {

template <class Number, bool Full, class T>
struct Block {
  const Polynomials<T>& table;
  T* nodes;
  T* slopes;
  Source<Number, T> grad, x, weight;
  Sink<T> to_grad, to_x, to_weight;

  template <int N>
  void at(int64_t u) const {
    using Array = NodeArray<Number, N, N * kWidth<Number, T>, T>;
    const Array array{nodes}, slope{slopes};
    make_nodes(table, x.at(u), array);
    contract_backward<Full>(
        table, array, slope, grad.at(u), weight.at(u), to_grad.at(u), to_weight.at(u));
    const Sink<T> sink = to_x.at(u);
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
        most_(numbers_together(2 * op.table.nodes * sizeof(Number))),
        array_(most_ * op.table.nodes * kWidth<Number, T>),
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
        to_weight_{memory_.take(op.table.weights * padded(op.channels)), padded(op.channels)} {}

  bool failed() const { return memory_.failed(); }

  int run(int64_t number) {
    const Run run = find_run(op_.ptr, op_.sets, number);
    const int64_t weights = op_.table.weights;
    if (Full) {
      fill_zero(to_weight_.data, weights * to_weight_.stride);
    }
    int stray = 0;
    const Index order{op_.order, op_.rows, &stray};
    for (int64_t k = run.begin; k < run.end; ++k) {
      row(order[k], run.set);
    }
    if (Full && (run.first || run.begin < run.end)) {
      T* into = run.alone ? op_.to_weight + run.set * weights * op_.channels
                          : op_.partial + number * weights * op_.channels;
      put_back(to_weight_.data, to_weight_.stride, true, op_.channels, weights, into);
    }
    return stray ? kStrayIndex : 0;
  }

 private:
  static constexpr bool kDual = sizeof(Number) > sizeof(WidePack<T>);

  // `where` is what one row or set of weights is found by.
  template <class Rows, class... Where>
  Source<Number, T> source(Rows& rows, const T* value, const T* tangent, Where... where) {
    if constexpr (kDual) {
      return {{rows[0].load(value, where...)}, {rows[1].load(tangent, where...)}};
    } else {
      return {rows[0].load(value, where...)};
    }
  }

  void row(int64_t r, int64_t set) {
    T* to_x = op_.to_x + r * op_.channels * op_.table.variables;
    T* to_grad = Full ? op_.to_grad + r * op_.channels * op_.table.components : nullptr;
    const Block<Number, Full, T> block{
        op_.table,
        nodes_,
        slopes_,
        source(grad_, op_.grad, op_.grad_tangent, r),
        source(x_, op_.x, op_.x_tangent, r),
        source(weight_, op_.weight, op_.weight_tangent, set),
        {Full ? to_grad_.open(to_grad) : to_weight_},
        {to_x_.open(to_x)},
        {to_weight_}};
    for_channels<T>(padded(op_.channels), most_, block);
    to_x_.store(to_x);
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
  Components<T> to_weight_;
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
  if (op.tangents) {
    return backward_runs<Dual<Pack>, true>(op, begin, end);
  }
  return op.only_x ? backward_runs<Pack, false>(op, begin, end)
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
