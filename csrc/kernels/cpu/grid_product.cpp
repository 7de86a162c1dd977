// Compiled once per instruction set: no torch, no C++ standard headers.
#include "kernels/cpu/grid_product.h"

#include "kernels/cpu/scratch.h"
#include "kernels/cpu/transpose.h"

namespace equigeo {
namespace {

constexpr int kSums = kRegisters / 2;  // registers for sums

// One sample in each lane. Latitudes come in pairs, mirror images in the equator, and of the values
// along them only parts of known parity are kept, for two pairs at a time.
template <class T>
class Samples {
 public:
  explicit Samples(const FoldedProduct<T>& op)
      : op_(op),
        memory_(size(op)),
        x_(take(padded_columns<T>(op.first->coefficients))),
        y_(take(padded_columns<T>(op.second->coefficients))),
        z_(take(padded_columns<T>(op.third->coefficients))),
        lines_(take(kMost * most_orders(op))),
        first_(take(kMost * op.images * op.orbits)),
        second_(take(kMost * op.images * op.orbits)),
        product_(take(kMost * op.images * op.orbits)) {}

  bool failed() const { return memory_.failed(); }

  void multiply(int64_t begin, int64_t count, int64_t beyond) {
    load(op_.x, op_.first->coefficients, begin, count, beyond, x_);
    load(op_.y, op_.second->coefficients, begin, count, beyond, y_);
    const int64_t dim = op_.third->coefficients;
    fill_zero(z_, dim * kStep);
    int64_t pair = 0;
    for (; pair + 2 <= op_.pairs; pair += 2) {
      multiply_along<2>(pair);
    }
    for (; pair < op_.pairs; ++pair) {
      multiply_along<1>(pair);
    }
    store_rows(z_, dim, count, beyond * dim, op_.out + begin * dim);
  }

 private:
  using Pack = WidePack<T>;
  static constexpr int64_t kStep = kWidth<Pack, T>;
  static constexpr int64_t kMost = 4;  // latitudes at a time

  static int64_t most_orders(const FoldedProduct<T>& op) {
    const int64_t a = op.first->orders, b = op.second->orders, c = op.third->orders;
    return a > b ? (a > c ? a : c) : (b > c ? b : c);
  }

  static int64_t size(const FoldedProduct<T>& op) {
    return kStep *
           (padded_columns<T>(op.first->coefficients) + padded_columns<T>(op.second->coefficients) +
            padded_columns<T>(op.third->coefficients) + kMost * most_orders(op) +
            3 * kMost * op.images * op.orbits);
  }

  T* take(int64_t packs) { return memory_.take(packs * kStep); }

  static void load(
      const T* rows, int64_t dim, int64_t begin, int64_t count, int64_t beyond, T* columns) {
    load_columns(rows + begin * dim, dim, count, beyond * dim, columns);
  }

  // The latitudes of P pairs.
  template <int P>
  void multiply_along(int64_t pair) {
    const int64_t each = op_.summands / op_.thirds;  // summands that are analyzed together
    for (int64_t t = 0; t < op_.thirds; ++t) {
      for (int64_t s = t * each; s < (t + 1) * each; ++s) {
        evaluate<P>(op_.first[op_.firsts == 1 ? 0 : s], pair, x_, first_);
        evaluate<P>(op_.second[op_.seconds == 1 ? 0 : s], pair, y_, second_);
        const int64_t points = 2 * P * op_.orbits;
        op_.images == 2 ? multiply_points<2>(points, s > t * each)
                        : multiply_points<4>(points, s > t * each);
      }
      analyze<P>(op_.third[t], pair);
    }
  }

  template <int F>
  void multiply_points(int64_t points, bool add) {
    const int64_t stride = points * kStep;
    for (int64_t i = 0; i < stride; i += kStep) {
      multiply_parts<Pack, F>(first_ + i, second_ + i, stride, add, product_ + i);
    }
  }

  // Parts of the values, (images, orbits, latitudes).
  template <int P>
  void evaluate(const FoldedExpansion<T>& table, int64_t pair, const T* from, T* parts) {
    constexpr int K = 2 * P;
    for (int64_t m = 0; m < table.orders; ++m) {
      Pack even[P][1], odd[P][1];
      sum_columns(table.meridians[2 * m], pair, from, even);
      sum_columns(table.meridians[2 * m + 1], pair, from, odd);
      EQUIGEO_UNROLL
      for (int p = 0; p < P; ++p) {
        T* line = lines_ + (m * K + 2 * p) * kStep;
        Memory<Pack, T>::store(line, even[p][0] + odd[p][0]);
        Memory<Pack, T>::store(line + kStep, even[p][0] - odd[p][0]);
      }
    }
    for (int64_t c = 0; c < op_.images; ++c) {
      T* part = parts + c * op_.orbits * K * kStep;
      sum_all<K, false>(table.parallels[c], lines_, nullptr, part);
    }
  }

  template <int P>
  void analyze(const FoldedExpansion<T>& table, int64_t pair) {
    constexpr int K = 2 * P;
    fill_zero(lines_, table.orders * K * kStep);
    for (int64_t c = 0; c < op_.images; ++c) {
      const T* part = product_ + c * op_.orbits * K * kStep;
      sum_all<K, true>(table.analysis[c], part, table.order[c], lines_);
    }
    for (int64_t m = 0; m < table.orders; ++m) {
      Pack even[P], odd[P];
      EQUIGEO_UNROLL
      for (int p = 0; p < P; ++p) {
        const T* line = lines_ + (m * K + 2 * p) * kStep;
        const Pack north = Memory<Pack, T>::load(line);
        const Pack south = Memory<Pack, T>::load(line + kStep);
        even[p] = north + south;
        odd[p] = north - south;
      }
      add_columns(table.meridians[2 * m], pair, even, z_);
      add_columns(table.meridians[2 * m + 1], pair, odd, z_);
    }
  }

  // All columns of a sum; column j goes, or is added, to place[j].
  template <int K, bool Add>
  static void sum_all(const Sum<T>& sum, const T* in, const int64_t* place, T* out) {
    int64_t column = 0;
    sum_tiles<kSums / K, K, Add>(sum, column, in, place, out);
  }

  template <int J, int K, bool Add>
  static void sum_tiles(
      const Sum<T>& sum, int64_t& column, const T* in, const int64_t* place, T* out) {
    for (; column + J <= sum.columns; column += J) {
      Pack tile[J][K];
      sum_columns(sum, column, in, tile);
      EQUIGEO_UNROLL
      for (int j = 0; j < J; ++j) {
        T* into = out + (Add ? place[column + j] : column + j) * K * kStep;
        EQUIGEO_UNROLL
        for (int k = 0; k < K; ++k, into += kStep) {
          Memory<Pack, T>::store(into, Add ? Memory<Pack, T>::load(into) + tile[j][k] : tile[j][k]);
        }
      }
    }
    if constexpr (J > 1) {
      sum_tiles<J / 2, K, Add>(sum, column, in, place, out);
    }
  }

  const FoldedProduct<T>& op_;
  Scratch<T> memory_;
  T *x_, *y_, *z_;
  T* lines_;  // (orders, latitudes)
  T *first_, *second_, *product_;
};

template <class T>
int multiply_rows(const FoldedProduct<T>& op, int64_t begin, int64_t end) {
  constexpr int64_t kLanes = kWidth<WidePack<T>, T>;
  Samples<T> samples(op);
  if (samples.failed()) {
    return kOutOfMemory;
  }
  for (; begin < end; begin += kLanes) {
    const int64_t count = end - begin < kLanes ? end - begin : kLanes;
    samples.multiply(begin, count, end - begin - count);
  }
  return 0;
}

}  // namespace

const Kernels<FoldedProduct> EQUIGEO_FOR_ISA(grid_product_rows) = {
    multiply_rows<float>, multiply_rows<double>};

}  // namespace equigeo
