// Compiled once per instruction set: no torch, no C++ standard headers.
#include "kernels/cpu/kernels.h"

#include "kernels/cpu/scratch.h"
#include "kernels/cpu/transpose.h"
#include "math/spherical_harmonics.h"

namespace equigeo {
namespace {

// Some points, one in each lane.
template <class T>
struct Lane {
  static constexpr int64_t kCount = kWidth<WidePack<T>, T>;

  int64_t first, count;
  int64_t beyond;  // points of the chunk that come later

  Vector<WidePack<T>> load(const T* vectors) const {
    T columns[3 * kCount] = {};
    split_components(vectors + 3 * first, count, 3, columns, kCount);
    using Pack = Memory<WidePack<T>, T>;
    return {Pack::load(columns), Pack::load(columns + kCount), Pack::load(columns + 2 * kCount)};
  }

  void store(const Vector<WidePack<T>>& v, T* vectors) const {
    T columns[3 * kCount];
    using Pack = Memory<WidePack<T>, T>;
    Pack::store(columns, v.x);
    Pack::store(columns + kCount, v.y);
    Pack::store(columns + 2 * kCount, v.z);
    join_components(columns, kCount, count, 3, vectors + 3 * first);
  }

  void load(const T* rows, int64_t dim, T* columns) const {
    load_columns(rows + first * dim, dim, count, beyond * dim, columns);
  }

  void store(const T* columns, int64_t dim, T* rows) const {
    store_rows(columns, dim, count, beyond * dim, rows + first * dim);
  }
};

// Call run(lanes, columns) for all points of a chunk in ascending order, with room for `dim`
// columns.
template <class T, class Run>
int for_lanes(int64_t begin, int64_t end, int64_t dim, const Run& run) {
  constexpr int64_t kCount = Lane<T>::kCount;
  const int64_t elements = padded_columns<T>(dim) * kCount;
  Scratch<T> memory(elements);
  if (memory.failed()) {
    return kOutOfMemory;
  }
  T* scratch = memory.take(elements);
  for (int64_t p = begin; p < end; p += kCount) {
    const int64_t count = end - p < kCount ? end - p : kCount;
    run(Lane<T>{p, count, end - p - count}, scratch);
  }
  return 0;
}

template <class T>
int forward(const SphericalHarmonics<T>& op, int64_t begin, int64_t end) {
  return for_lanes<T>(begin, end, op.dim, [&](const Lane<T>& lanes, T* columns) {
    harmonics(op, lanes.load(op.x), columns);
    lanes.store(columns, op.dim, op.out);
  });
}

template <class T>
int backward(const SphericalHarmonicsBackward<T>& op, int64_t begin, int64_t end) {
  return for_lanes<T>(begin, end, op.dim, [&](const Lane<T>& lanes, T* columns) {
    lanes.load(op.grad, op.dim, columns);
    lanes.store(harmonics_backward(op, lanes.load(op.x), columns), op.grad_x);
  });
}

template <class T>
int double_backward(const SphericalHarmonicsDoubleBackward<T>& op, int64_t begin, int64_t end) {
  return for_lanes<T>(begin, end, op.dim, [&](const Lane<T>& lanes, T* columns) {
    lanes.load(op.grad, op.dim, columns);
    lanes.store(
        harmonics_double_backward(op, lanes.load(op.x), lanes.load(op.along), columns, columns),
        op.to_x);
    lanes.store(columns, op.dim, op.to_grad);
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
