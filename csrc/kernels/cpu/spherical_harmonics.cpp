// Compiled once per instruction set: no torch, no C++ standard headers.
#include "kernels/cpu/kernels.h"

#include "kernels/cpu/scratch.h"
#include "kernels/cpu/stream.h"
#include "kernels/cpu/transpose.h"
#include "math/spherical_harmonics.h"

namespace equigeo {
namespace {

// Two numbers that are computed together: each coefficient is read once for both, and the second
// number is computed while the first waits for a result.
template <class N>
struct Pair {
  N low, high;
};

template <class N>
EQUIGEO_HOST_DEVICE Pair<N> operator+(const Pair<N>& a, const Pair<N>& b) {
  return {a.low + b.low, a.high + b.high};
}

template <class N>
EQUIGEO_HOST_DEVICE Pair<N> operator-(const Pair<N>& a, const Pair<N>& b) {
  return {a.low - b.low, a.high - b.high};
}

template <class N>
EQUIGEO_HOST_DEVICE Pair<N> operator*(const Pair<N>& a, const Pair<N>& b) {
  return {a.low * b.low, a.high * b.high};
}

template <class C, class N>
EQUIGEO_HOST_DEVICE Pair<N> operator*(C a, const Pair<N>& b) {
  return {a * b.low, a * b.high};
}

template <class N, class T>
struct Memory<Pair<N>, T> {
  static EQUIGEO_HOST_DEVICE Pair<N> load(const T* address) {
    return {Memory<N, T>::load(address), Memory<N, T>::load(address + kWidth<N, T>)};
  }
  static EQUIGEO_HOST_DEVICE void store(T* address, const Pair<N>& pair) {
    Memory<N, T>::store(address, pair.low);
    Memory<N, T>::store(address + kWidth<N, T>, pair.high);
  }
};

template <class N>
struct NumberOf<Pair<N>> {
  template <class T>
  static EQUIGEO_HOST_DEVICE Pair<N> constant(T c) {
    return {number<N>(c), number<N>(c)};
  }
};

template <class N>
EQUIGEO_HOST_DEVICE Direction<Pair<N>> direction(const Vector<Pair<N>>& v) {
  const Direction<N> low = direction(Vector<N>{v.x.low, v.y.low, v.z.low});
  const Direction<N> high = direction(Vector<N>{v.x.high, v.y.high, v.z.high});
  return {
      {{low.unit.x, high.unit.x}, {low.unit.y, high.unit.y}, {low.unit.z, high.unit.z}},
      {low.inverse, high.inverse}};
}

// Some points, one in each lane of a number: of a register, or of a pair of registers.
template <class N, class T>
struct Lane {
  static constexpr int64_t kCount = kWidth<N, T>;

  int64_t first, count;
  int64_t beyond;  // points of the chunk that come later

  Vector<N> load(const T* vectors) const {
    T rows[3 * kCount], columns[3 * kCount];
    const T* from = vectors + 3 * first;
    if (count < kCount) {
      fill_zero(rows, 3 * kCount);
      copy_row(from, 3 * count, rows);
      from = rows;
    }
    split_components(from, kCount, 3, columns, kCount);
    using Number = Memory<N, T>;
    return {
        Number::load(columns), Number::load(columns + kCount), Number::load(columns + 2 * kCount)};
  }

  void store(const Vector<N>& v, T* vectors) const {
    T columns[3 * kCount];
    using Number = Memory<N, T>;
    Number::store(columns, v.x);
    Number::store(columns + kCount, v.y);
    Number::store(columns + 2 * kCount, v.z);
    join_components(columns, kCount, count, 3, vectors + 3 * first);
  }

  void load(const T* rows, int64_t dim, T* columns) const {
    load_columns(rows + first * dim, dim, count, beyond * dim, columns, kCount);
  }

  // To rows of which the first belongs to the first of these points.
  void store(const T* columns, int64_t dim, T* rows) const {
    constexpr int64_t kW = kWidth<WidePack<T>, T>;
    for (int64_t at = 0; at < count; at += kW) {
      const int64_t left = count - at, stored = left < kW ? left : kW;
      store_rows(
          columns + at, dim, stored, (left - stored + beyond) * dim, rows + at * dim, kCount);
    }
  }
};

// Call run(lanes, columns) for all points of a chunk in ascending order, with room for `dim`
// columns and `more` numbers behind them.
template <class N, class T, class Run>
int for_lanes(int64_t begin, int64_t end, int64_t dim, int64_t more, const Run& run) {
  constexpr int64_t kCount = Lane<N, T>::kCount;
  const int64_t elements = padded_columns<T>(dim) * kCount + more;
  Scratch<T> memory(elements);
  if (memory.failed()) {
    return kOutOfMemory;
  }
  T* scratch = memory.take(elements);
  for (int64_t p = begin; p < end; p += kCount) {
    const int64_t count = end - p < kCount ? end - p : kCount;
    run(Lane<N, T>{p, count, end - p - count}, scratch);
  }
  return 0;
}

// All orders up to the last in straight-line code.
template <class N, class T, class Visit, int... M>
EQUIGEO_HOST_DEVICE void visit_orders(
    const HarmonicsTable<T>& table, const Vector<N>& u, Visit& visit, Sequence<M...>) {
  const N square = dot(u, u);
  Azimuth<N> azimuth = {number<N>(T(1)), N{}, N{}, N{}};
  ((azimuth = visit_order(M, table, u, square, azimuth, visit)), ...);
}

// Columns of order zero, where all degrees to 1, 2 or 3 are wanted: these have straight-line code.
constexpr int32_t kCenters[] = {0, 2, 6, 12};

// The values at points, in columns.
template <int L, class N, class T>
EQUIGEO_HOST_DEVICE void evaluate(const SphericalHarmonics<T>& op, const Vector<N>& x, T* columns) {
  if constexpr (L < 0) {
    harmonics(op, x, columns);
  } else {
    HarmonicsTable<T> table = op.table;
    table.lmax = L;
    const Vector<N> u = op.normalize ? direction(x).unit : x;
    Evaluate<N, T> visit{kCenters, columns, 0, {}, {}};
    visit_orders(table, u, visit, typename Count<L + 1>::Type());
  }
}

// Degrees 0 to L, or those of the op if L is negative.
template <int L, class T>
int forward_to(const SphericalHarmonics<T>& op, int64_t begin, int64_t end) {
  using N = Pair<WidePack<T>>;
  constexpr int64_t kCount = Lane<N, T>::kCount;
  const int64_t dim = L < 0 ? op.dim : (L + 1) * (L + 1);
  const bool stream = op.stream;
  const auto run = [&](const Lane<N, T>& lanes, T* columns) __attribute__((always_inline)) {
    evaluate<L>(op, lanes.load(op.x), columns);
    T* rows = op.out + lanes.first * dim;
    if (stream) {
      T* stage = columns + padded_columns<T>(dim) * kCount;
      lanes.store(columns, dim, stage);
      stream_row(stage, lanes.count * dim, rows);
    } else {
      lanes.store(columns, dim, rows);
    }
  };
  // Rows that are written past the caches are joined first; registers of the last are stored whole.
  const int64_t staged = stream ? kCount * dim + kWidth<WidePack<T>, T> : 0;
  const int status = for_lanes<N, T>(begin, end, dim, staged, run);
  finish_streams();
  return status;
}

template <class T>
int forward(const SphericalHarmonics<T>& op, int64_t begin, int64_t end) {
  const int64_t lmax = op.table.lmax;
  switch (op.dim == (lmax + 1) * (lmax + 1) ? lmax : -1) {
    case 1:
      return forward_to<1>(op, begin, end);
    case 2:
      return forward_to<2>(op, begin, end);
    case 3:
      return forward_to<3>(op, begin, end);
    default:
      return forward_to<-1>(op, begin, end);
  }
}

template <class T>
int backward(const SphericalHarmonicsBackward<T>& op, int64_t begin, int64_t end) {
  using N = WidePack<T>;
  return for_lanes<N, T>(begin, end, op.dim, 0, [&](const Lane<N, T>& lanes, T* columns) {
    lanes.load(op.grad, op.dim, columns);
    lanes.store(harmonics_backward(op, lanes.load(op.x), columns), op.grad_x);
  });
}

template <class T>
int double_backward(const SphericalHarmonicsDoubleBackward<T>& op, int64_t begin, int64_t end) {
  using N = WidePack<T>;
  return for_lanes<N, T>(begin, end, op.dim, 0, [&](const Lane<N, T>& lanes, T* columns) {
    lanes.load(op.grad, op.dim, columns);
    lanes.store(
        harmonics_double_backward(op, lanes.load(op.x), lanes.load(op.along), columns, columns),
        op.to_x);
    lanes.store(columns, op.dim, op.to_grad + lanes.first * op.dim);
  });
}

}  // namespace

const Kernels<SphericalHarmonics> EQUIGEO_FOR_ISA(spherical_harmonics_rows) = {
    forward<float>, forward<double>};
const Kernels<SphericalHarmonicsBackward> EQUIGEO_FOR_ISA(spherical_harmonics_backward_rows) = {
    backward<float>, backward<double>};
const Kernels<SphericalHarmonicsDoubleBackward> EQUIGEO_FOR_ISA(
    spherical_harmonics_double_backward_rows) = {double_backward<float>, double_backward<double>};

}  // namespace equigeo
