// Compiled once per instruction set: no torch, no C++ standard headers.
#include "ops/cpu/principal_axes.h"

#include "math/principal_axes.h"
#include "ops/cpu/components.h"
#include "ops/cpu/scratch.h"

namespace equigeo {
namespace {

using Pack = WidePack<double>;
constexpr int64_t kLanesOfPack = kWidth<Pack, double>;
constexpr int64_t kPart = 1024;  // points that are held as columns: they stay in the first cache

// The lanes of a register.
struct Register {
  double sum(Pack pack) const { return sum_lanes<double, sizeof(Pack)>(pack); }
  double largest(Pack pack) const {
    double most = pack[0];
    for (int64_t l = 1; l < kLanesOfPack; ++l) {
      most = pack[l] > most ? pack[l] : most;
    }
    return most;
  }
};

// Rows of D numbers as columns of float64, filled up with zeros to whole registers.
template <int D, class T>
void to_columns(const T* rows, const double (&origin)[D], int64_t count, double* columns) {
  alignas(64) T stored[D * kPart];
  split_components(rows, count, D, stored, kPart);
  for (int k = 0; k < D; ++k) {
    for (int64_t p = 0; p < count; ++p) {
      columns[k * kPart + p] = static_cast<double>(stored[k * kPart + p]) - origin[k];
    }
    for (int64_t p = count; p % kLanesOfPack; ++p) {
      columns[k * kPart + p] = 0;
    }
  }
}

template <int D, class T>
void to_rows(const double* columns, int64_t count, double poison, T* rows) {
  alignas(64) T stored[D * kPart];
  for (int k = 0; k < D; ++k) {
    for (int64_t p = 0; p < count; ++p) {
      stored[k * kPart + p] = static_cast<T>(columns[k * kPart + p] + poison);
    }
  }
  join_components(stored, kPart, count, D, rows);
}

// Weights of a part, zero beyond its end.
template <class T>
void to_weights(const T* weight, int64_t count, double* column) {
  for (int64_t p = 0; p < count; ++p) {
    column[p] = weight ? static_cast<double>(weight[p]) : 1.0;
  }
  for (int64_t p = count; p % kLanesOfPack; ++p) {
    column[p] = 0;
  }
}

// What has no weight may be anything: make it zero.
template <int D>
void drop_weightless(const double* weight, int64_t count, double* columns) {
  for (int64_t p = 0; p < count; ++p) {
    for (int k = 0; k < D && !(weight[p] > 0); ++k) {
      columns[k * kPart + p] = 0;
    }
  }
}

template <int D>
void load(const double* columns, int64_t p, Pack (&out)[D]) {
  for (int k = 0; k < D; ++k) {
    out[k] = Memory<Pack, double>::load(columns + k * kPart + p);
  }
}

template <int D>
void store(const Pack (&values)[D], int64_t p, double* columns) {
  for (int k = 0; k < D; ++k) {
    Memory<Pack, double>::store(columns + k * kPart + p, values[k]);
  }
}

// The points of one cloud, part by part, in columns that are made once where one part is all.
template <class T, int D, bool kWeighted>
class CloudColumns {
 public:
  CloudColumns(const PrincipalAxes<T>& op, int64_t cloud, double* columns, CloudAxes<D>& axes)
      : op_(op),
        axes_(axes),
        begin_(op.ptr[cloud]),
        end_(op.ptr[cloud + 1]),
        columns_(columns),
        weights_(columns + D * kPart) {
    int64_t first = begin_;
    while (kWeighted && first < end_ && !(op.weight[first] > 0)) {
      ++first;
    }
    for (int k = 0; k < D; ++k) {
      axes.origin[k] = op.center && first < end_ ? static_cast<double>(op.x[first * D + k]) : 0;
    }
  }

  double total() const {
    double sum = static_cast<double>(end_ - begin_);
    if constexpr (kWeighted) {
      sum = 0;
      for (int64_t p = begin_; p < end_; ++p) {
        sum += static_cast<double>(op_.weight[p]);
      }
    }
    return sum;
  }

  // Call run(u, weight, p) for each register of points of each part, then after(first, count).
  template <class Run, class After>
  void each(bool centred, const Run& run, const After& after) {
    for (int64_t first = begin_; first < end_; first += kPart) {
      const int64_t count = end_ - first < kPart ? end_ - first : kPart;
      prepare(first, count, centred);
      for (int64_t p = 0; p < count; p += kLanesOfPack) {
        Pack u[D];
        load(columns_, p, u);
        if constexpr (kWeighted) {
          run(u, Memory<Pack, double>::load(weights_ + p), p);
        } else {
          run(u, Unweighted(), p);
        }
      }
      after(first, count);
    }
  }

 private:
  void prepare(int64_t first, int64_t count, bool centred) {
    if (first != held_) {
      to_columns<D>(op_.x + first * D, axes_.origin, count, columns_);
      if constexpr (kWeighted) {
        to_weights(op_.weight + first, count, weights_);
        drop_weightless<D>(weights_, count, columns_);
      }
      held_ = first;
      moved_ = false;
    }
    if (centred && !moved_) {
      for (int k = 0; k < D; ++k) {
        double* column = columns_ + k * kPart;
        for (int64_t p = 0; p < count; ++p) {
          column[p] = column[p] * axes_.inverse - axes_.mean[k];
        }
      }
      if constexpr (kWeighted) {
        drop_weightless<D>(weights_, count, columns_);
      }
      moved_ = true;
    }
  }

  const PrincipalAxes<T>& op_;
  CloudAxes<D>& axes_;
  int64_t begin_, end_, held_ = -1;
  bool moved_ = false;
  double *columns_, *weights_;
};

inline void nothing(int64_t, int64_t) {}

template <class T, int D, bool kWeighted>
void embed_cloud(const PrincipalAxes<T>& op, int64_t cloud, double* memory) {
  const Register lanes;
  CloudAxes<D> axes;
  CloudColumns<T, D, kWeighted> points(op, cloud, memory, axes);
  FirstSums<Pack, D> first;
  points.each(
      false, [&](const Pack(&u)[D], auto weight, int64_t) { first.add(u, weight); }, nothing);
  axes.begin(lanes, first, points.total(), op.center, op.null_tol);
  SecondSums<Pack, D> second;
  points.each(
      true, [&](const Pack(&u)[D], auto weight, int64_t) { second.add(u, weight); }, nothing);
  axes.turn(lanes, second);
  ThirdSums<Pack, D> third;
  points.each(
      true, [&](const Pack(&u)[D], auto weight, int64_t) { third.add(u, weight, axes.axes); },
      nothing);
  axes.finish(lanes, third, op.signs, op.scale);
  axes.store(op, cloud);
  double matrix[D][D];
  axes.projection(matrix);
  double* results = memory + (D + 1) * kPart;
  points.each(
      true,
      [&](const Pack(&u)[D], auto, int64_t p) {
        Pack y[D];
        for (int k = 0; k < D; ++k) {
          y[k] = along(u, matrix[k]);
        }
        store(y, p, results);
      },
      [&](int64_t at, int64_t count) { to_rows<D>(results, count, axes.poison(), op.y + at * D); });
}

template <class T, int D>
void embed_any(const PrincipalAxes<T>& op, int64_t cloud, double* memory) {
  op.weight ? embed_cloud<T, D, true>(op, cloud, memory)
            : embed_cloud<T, D, false>(op, cloud, memory);
}

template <class T, int D>
void differentiate_cloud(const PrincipalAxesBackward<T>& op, int64_t cloud, double* memory) {
  constexpr double kOrigin[D] = {};
  double *ys = memory, *grads = memory + D * kPart, *weights = memory + 2 * D * kPart;
  const int64_t begin = op.ptr[cloud], end = op.ptr[cloud + 1];
  int64_t held = -1;
  const auto each = [&](const auto& run, const auto& after) {
    for (int64_t first = begin; first < end; first += kPart) {
      const int64_t count = end - first < kPart ? end - first : kPart;
      if (first != held) {
        to_columns<D>(op.y + first * D, kOrigin, count, ys);
        to_columns<D>(op.grad_y + first * D, kOrigin, count, grads);
        to_weights(op.weight ? op.weight + first : nullptr, count, weights);
        if (op.weight) {
          drop_weightless<D>(weights, count, grads);
        }
        held = first;
      }
      for (int64_t p = 0; p < count; p += kLanesOfPack) {
        Pack y[D], grad[D];
        load(ys, p, y);
        load(grads, p, grad);
        run(y, grad, Memory<Pack, double>::load(weights + p), p);
      }
      after(first, count);
    }
  };
  GradientSums<Pack, D> sums;
  each(
      [&](const Pack(&y)[D], const Pack(&grad)[D], Pack weight, int64_t) {
        sums.add(y, grad, weight);
      },
      nothing);
  CloudGradient<D> gradient;
  gradient.find(Register(), sums, op, cloud);
  double* results = weights + kPart;
  each(
      [&](const Pack(&y)[D], const Pack(&grad)[D], Pack weight, int64_t p) {
        Pack out[D];
        gradient.apply(y, grad, weight, out);
        store(out, p, results);
      },
      [&](int64_t at, int64_t count) { to_rows<D>(results, count, 0, op.grad_x + at * D); });
}

template <class T>
int embed_clouds(const PrincipalAxes<T>& op, int64_t begin, int64_t end) {
  Scratch<double> memory((2 * op.dim + 1) * kPart);
  if (memory.failed()) {
    return kOutOfMemory;
  }
  double* columns = memory.take((2 * op.dim + 1) * kPart);
  for (int64_t cloud = begin; cloud < end; ++cloud) {
    op.dim == 1   ? embed_any<T, 1>(op, cloud, columns)
    : op.dim == 2 ? embed_any<T, 2>(op, cloud, columns)
                  : embed_any<T, 3>(op, cloud, columns);
  }
  return 0;
}

template <class T>
int differentiate_clouds(const PrincipalAxesBackward<T>& op, int64_t begin, int64_t end) {
  Scratch<double> memory((3 * op.dim + 1) * kPart);
  if (memory.failed()) {
    return kOutOfMemory;
  }
  double* columns = memory.take((3 * op.dim + 1) * kPart);
  for (int64_t cloud = begin; cloud < end; ++cloud) {
    op.dim == 1   ? differentiate_cloud<T, 1>(op, cloud, columns)
    : op.dim == 2 ? differentiate_cloud<T, 2>(op, cloud, columns)
                  : differentiate_cloud<T, 3>(op, cloud, columns);
  }
  return 0;
}

}  // namespace

const Kernels<PrincipalAxes> EQUIGEO_FOR_ISA(principal_axes_clouds) = {
    embed_clouds<float>, embed_clouds<double>};
const Kernels<PrincipalAxesBackward> EQUIGEO_FOR_ISA(principal_axes_backward_clouds) = {
    differentiate_clouds<float>, differentiate_clouds<double>};

}  // namespace equigeo
