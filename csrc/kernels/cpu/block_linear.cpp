// Compiled once per instruction set: no torch, no C++ standard headers.
//
// Some rows of all blocks that lead to a segment are multiplied together, components outside, so
// that a matrix is read once for all of them, panel by panel from the nearest cache.
#include "kernels/cpu/block_linear.h"

#include "kernels/cpu/components.h"
#include "kernels/cpu/matrix_tile.h"
#include "kernels/cpu/rows.h"

namespace equigeo {
namespace {

// Rows of a segment as vectors of copies, one for each component.
template <class S>
class Vectors {
 public:
  using T = Compute<S>;

  // Room for `count` vectors of `mul` copies, padded, of segments with up to d components.
  Vectors(int64_t count, int64_t mul, int64_t d)
      : memory_(Scratch<T>::round_up(count * mul) + Scratch<T>::round_up(mul * d)), at_(count) {
    if (!memory_.failed()) {
      copies_ = memory_.take(count * mul);
      wide_ = memory_.take(mul * d);
    }
  }

  bool failed() const { return memory_.failed() || at_.failed(); }

  // Those of `rows` rows, (rows * d) vectors.
  const T* const* load(
      const S* from,
      int64_t dim,
      int64_t rows,
      int64_t offset,
      int64_t mul,
      int64_t d,
      bool ir_mul) {
    const T** at = at_.take(0);
    const int64_t stride = padded(mul);
    for (int64_t r = 0; r < rows; ++r) {
      const S* row = from + r * dim + offset;
      const T* segment = read_row(row, mul * d, wide_);
      const bool kept = !kCopies<S> && (ir_mul || d == 1);
      T* to = copies_ + r * d * stride;
      if (!kept) {
        fetch(segment, ir_mul, mul, d, to, stride);
      }
      for (int64_t i = 0; i < d; ++i) {
        at[r * d + i] = kept ? segment + i * mul : to + i * stride;
      }
    }
    return at;
  }

 private:
  Scratch<T> memory_;
  Scratch<const T*> at_;
  T *copies_ = nullptr, *wide_ = nullptr;
};

template <class S>
int pack_groups(const PackMatrices<S>& op, int64_t begin, int64_t end) {
  using T = Compute<S>;
  for (int64_t g = begin; g < end; ++g) {
    for (int64_t b = 0; b < op.plan.count; ++b) {
      const MatrixBlock& block = op.plan.block[b];
      const int64_t inner = block.given.mul, outer = block.given.mul_out;
      const int64_t stride = padded(outer);
      const S* from = op.weight + g * op.dim_weight + block.given.weight;
      T* to = op.matrices + g * op.plan.matrices + block.matrix;
      for (int64_t u = 0; u < inner; ++u) {
        for (int64_t w = 0; w < outer; ++w) {
          T value;
          read_number(from + (op.transposed ? w * inner + u : u * outer + w), value);
          to[u * stride + w] = op.plan.factor[b] * value;
        }
        for (int64_t w = outer; w < stride; ++w) {
          to[u * stride + w] = 0;
        }
      }
    }
  }
  return 0;
}

template <class S>
class RowMap {
 public:
  using T = Compute<S>;

  explicit RowMap(const MapRows<S>& op)
      : op_(op),
        plan_(op.plan),
        vectors_(kMappedRows * plan_.largest_d, plan_.largest_in, plan_.largest_d),
        memory_(
            Scratch<T>::round_up(kMappedRows * plan_.largest_d * plan_.largest_out) +
            Scratch<T>::round_up(wide_rows())) {
    if (!memory_.failed()) {
      sums_ = memory_.take(kMappedRows * plan_.largest_d * plan_.largest_out);
      wide_ = memory_.take(wide_rows());
    }
  }

  bool failed() const { return vectors_.failed() || memory_.failed(); }

  // Rows of one group.
  void run(int64_t begin, int64_t rows) {
    const T* matrices = op_.matrices + begin / op_.group * plan_.matrices;
    S* out = op_.out + begin * op_.dim_out;
    T* to = wide_;
    if constexpr (!kCopies<S>) {
      to = out;
    }
    if (!plan_.covers) {
      fill_zero(to, rows * op_.dim_out);
    }
    for (int64_t b = 0; b < plan_.count; ++b) {
      const MatrixBlock& block = plan_.block[b];
      const LinearBlock& given = block.given;
      const int64_t stride = padded(given.mul_out), d = given.d;
      const T* const* vectors = vectors_.load(
          op_.in + begin * op_.dim_in, op_.dim_in, rows, given.in, given.mul, d, plan_.ir_mul);
      multiply_matrix(
          VectorsAt<T>{vectors}, rows * d, given.mul, matrices + block.matrix, stride, sums_,
          !block.first);
      for (int64_t r = 0; r < rows && block.last; ++r) {
        put_back(
            sums_ + r * d * stride, stride, plan_.ir_mul, given.mul_out, d,
            to + r * op_.dim_out + given.out);
      }
    }
    if constexpr (kCopies<S>) {
      for (int64_t n = 0; n < rows * op_.dim_out; ++n) {
        write_number(wide_[n], out + n);
      }
    }
  }

 private:
  int64_t wide_rows() const { return kCopies<S> ? kMappedRows * op_.dim_out : 0; }

  const MapRows<S>& op_;
  const LinearPlan<T>& plan_;
  Vectors<S> vectors_;
  Scratch<T> memory_;
  T *sums_ = nullptr, *wide_ = nullptr;
};

template <class S>
int map_range(const MapRows<S>& op, int64_t begin, int64_t end) {
  RowMap<S> map(op);
  if (map.failed()) {
    return kOutOfMemory;
  }
  while (begin < end) {
    const int64_t group_end = (begin / op.group + 1) * op.group;
    const int64_t last = group_end < end ? group_end : end;
    const int64_t rows = last - begin < kMappedRows ? last - begin : kMappedRows;
    map.run(begin, rows);
    begin += rows;
  }
  return 0;
}

template <class S>
class WeightGradient {
 public:
  using T = Compute<S>;

  explicit WeightGradient(const LinearWeightGradient<S>& op)
      : op_(op),
        plan_(op.plan),
        grads_(pairs(), plan_.largest_out, plan_.largest_d),
        memory_(
            Scratch<T>::round_up(kWeightRows * pairs()) +
            Scratch<T>::round_up(pairs() * plan_.largest_out) +
            2 * Scratch<T>::round_up(kWeightRows * plan_.largest_out)),
        transposed_(kWeightRows) {
    if (!memory_.failed()) {
      columns_ = memory_.take(kWeightRows * pairs());
      matrix_ = memory_.take(pairs() * plan_.largest_out);
      part_ = memory_.take(kWeightRows * plan_.largest_out);
      sum_ = memory_.take(kWeightRows * plan_.largest_out);
    }
  }

  bool failed() const { return grads_.failed() || memory_.failed() || transposed_.failed(); }

  void run(int64_t group, const WeightTask& task) {
    const LinearBlock& block = plan_.block[task.block].given;
    const int64_t left = block.mul - task.first;
    const int64_t copies = left < kWeightRows ? left : kWeightRows;
    const int64_t stride = padded(block.mul_out);
    fill_zero(sum_, copies * stride);
    const int64_t begin = group * op_.group, end = begin + op_.group;
    const int64_t step = block.d < kPairs ? kPairs / block.d : 1;
    for (int64_t row = begin; row < end; row += step) {
      const int64_t rows = end - row < step ? end - row : step;
      load_columns_of(block, task.first, copies, row, rows);
      load_matrix(block, row, rows);
      // Sums of some rows at a time: adding all rows one by one would lose more digits.
      const VectorsAt<T> columns{transposed_.take(0)};
      multiply_matrix(columns, copies, rows * block.d, matrix_, stride, part_, false);
      for (int64_t n = 0; n < copies * stride; ++n) {
        sum_[n] += part_[n];
      }
    }
    const T factor = plan_.factor[task.block];
    S* to = op_.grad_weight + group * op_.dim_weight + block.weight;
    for (int64_t u = 0; u < copies; ++u) {
      for (int64_t w = 0; w < block.mul_out; ++w) {
        write_number(factor * sum_[u * stride + w], to + (task.first + u) * block.mul_out + w);
      }
    }
  }

 private:
  static constexpr int64_t kPairs = 128;  // rows times components that are summed at a time

  int64_t pairs() const { return plan_.largest_d < kPairs ? kPairs : plan_.largest_d; }

  // Some copies of the input, each with all rows and components side by side.
  void load_columns_of(
      const LinearBlock& block, int64_t first, int64_t copies, int64_t row, int64_t rows) {
    const int64_t d = block.d, pairs = rows * d;
    const int64_t copy = plan_.ir_mul ? 1 : d, step = plan_.ir_mul ? block.mul : 1;
    const T** columns = transposed_.take(0);
    for (int64_t u = 0; u < copies; ++u) {
      T* to = columns_ + u * pairs;
      columns[u] = to;
      for (int64_t r = 0; r < rows; ++r) {
        const S* from = op_.in + (row + r) * op_.dim_in + block.in + (first + u) * copy;
        for (int64_t i = 0; i < d; ++i) {
          read_number(from + i * step, to[r * d + i]);
        }
      }
    }
  }

  // The gradients that arrive, padded, one row for each row and component.
  void load_matrix(const LinearBlock& block, int64_t row, int64_t rows) {
    const int64_t stride = padded(block.mul_out);
    const T* const* vectors = grads_.load(
        op_.grad + row * op_.dim_out, op_.dim_out, rows, block.out, block.mul_out, block.d,
        plan_.ir_mul);
    for (int64_t n = 0; n < rows * block.d; ++n) {
      T* to = matrix_ + n * stride;
      copy_row(vectors[n], block.mul_out, to);
      fill_zero(to + block.mul_out, stride - block.mul_out);
    }
  }

  const LinearWeightGradient<S>& op_;
  const LinearPlan<T>& plan_;
  Vectors<S> grads_;
  Scratch<T> memory_;
  Scratch<const T*> transposed_;
  T *columns_ = nullptr, *matrix_ = nullptr, *part_ = nullptr, *sum_ = nullptr;
};

template <class S>
int weight_gradient_range(const LinearWeightGradient<S>& op, int64_t begin, int64_t end) {
  WeightGradient<S> gradient(op);
  if (gradient.failed()) {
    return kOutOfMemory;
  }
  for (int64_t n = begin; n < end; ++n) {
    gradient.run(n / op.tasks, op.task[n % op.tasks]);
  }
  return 0;
}

}  // namespace

const Kernels<PackMatrices> EQUIGEO_FOR_ISA(pack_matrices_groups) = {
    pack_groups<float>, pack_groups<double>, pack_groups<Bf16>};
const Kernels<MapRows> EQUIGEO_FOR_ISA(map_rows) = {
    map_range<float>, map_range<double>, map_range<Bf16>};
const Kernels<LinearWeightGradient> EQUIGEO_FOR_ISA(linear_weight_gradient_tasks) = {
    weight_gradient_range<float>, weight_gradient_range<double>, weight_gradient_range<Bf16>};

}  // namespace equigeo
