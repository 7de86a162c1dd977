// Compiled once per instruction set: no torch, no C++ standard headers.
#include "kernels/cpu/kernels.h"

#include "kernels/cpu/components.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/transpose.h"
#include "math/principal_axes.h"

namespace equigeo {
namespace {

using Pack = WidePack<double>;
constexpr int64_t kLanesOfPack = kWidth<Pack, double>;

// Points that are held as columns of their own type: they stay in the first cache.
template <class T>
constexpr int64_t kPart = 8192 / sizeof(T);

// As many numbers of a column as a register holds in float64.
template <class T>
struct Column {
  static constexpr int kBytes = sizeof(T) * kLanesOfPack;
  using Few = typename PackOf<T, kBytes>::Type;

  static Pack wide(Few few) { return widened<T, kBytes>(few); }
  static Few few(Pack pack) { return __builtin_convertvector(pack, Few); }
  static Unweighted few(Unweighted weight) { return weight; }
  static Pack load(const T* from) { return wide(Memory<Few, T>::load(from)); }
};

// Room for so many numbers, whole registers of them, where no two columns begin at the same place
// of a page.
EQUIGEO_HOST_DEVICE int64_t column_stride(int64_t count) { return padded(count) + kLanes; }

template <int D, class T>
void load(const T* columns, int64_t stride, Pack (&out)[D]) {
  for (int k = 0; k < D; ++k) {
    out[k] = Column<T>::load(columns + k * stride);
  }
}

template <int D, class T>
void store(const Pack (&values)[D], int64_t stride, T* columns) {
  for (int k = 0; k < D; ++k) {
    Memory<typename Column<T>::Few, T>::store(columns + k * stride, Column<T>::few(values[k]));
  }
}

// Rows as columns, filled up with zeros to whole registers.
template <int D, class T>
void to_columns(const T* rows, int64_t count, T* columns, int64_t stride) {
  split_components(rows, count, D, columns, stride);
  for (int k = 0; k < D; ++k) {
    for (int64_t p = count; p % kLanesOfPack; ++p) {
      columns[k * stride + p] = 0;
    }
  }
}

// Sums over the lanes of what has packs as its only members.
template <template <class, int> class Sums, int D>
Sums<double, D> summed(const Sums<Pack, D>& packs) {
  constexpr int kCount = sizeof(packs) / sizeof(Pack);
  constexpr int kWhole = kCount / kLanesOfPack * kLanesOfPack;
  const Pack* terms = reinterpret_cast<const Pack*>(&packs);
  double sums[kCount + kLanesOfPack];
  int first = 0;
  for (; first < kWhole || kCount - first > 2; first += kLanesOfPack) {
    Pack rows[kLanesOfPack] = {};
    for (int i = 0; i < kLanesOfPack && first + i < kCount; ++i) {
      rows[i] = terms[first + i];
    }
    Memory<Pack, double>::store(sums + first, sum_each(rows));
  }
  for (; first < kCount; ++first) {
    sums[first] = sum_lanes<double, sizeof(Pack)>(terms[first]);
  }
  Sums<double, D> out;
  __builtin_memcpy(&out, sums, sizeof(out));
  return out;
}

inline double largest_lane(Pack pack) {
  double most = pack[0];
  for (int l = 1; l < kLanesOfPack; ++l) {
    most = pack[l] > most ? pack[l] : most;
  }
  return most;
}

// Largest magnitude in columns that end with zeros, whose bits have the order of the numbers.
template <int D, class T>
double largest_magnitude(const T* columns, int64_t stride, int64_t count) {
  using Few = typename Column<T>::Few;
  using Bits = typename Lanes<Few>::Bits;
  Bits most[D] = {};
  for (int64_t p = 0; p < count; p += kLanesOfPack) {
    for (int k = 0; k < D; ++k) {
      const Few size = magnitude(Memory<Few, T>::load(columns + k * stride + p));
      Bits bits;
      __builtin_memcpy(&bits, &size, sizeof(bits));
      most[k] = bits > most[k] ? bits : most[k];
    }
  }
  for (int k = 1; k < D; ++k) {
    most[0] = most[k] > most[0] ? most[k] : most[0];
  }
  Few sizes;
  __builtin_memcpy(&sizes, most, sizeof(sizes));
  return largest_lane(Column<T>::wide(sizes));
}

// Ones, and zeros beyond the end.
inline Pack first_lanes(int64_t count) {
  Pack ones;
  for (int64_t l = 0; l < kLanesOfPack; ++l) {
    ones[l] = l < count ? 1 : 0;
  }
  return ones;
}

// What does not count may be anything: make it zero.
template <int D>
void keep(Pack (&)[D], Unweighted) {}
template <int D>
void keep(Pack (&u)[D], Pack weight) {
  for (int k = 0; k < D; ++k) {
    u[k] = weight > 0 ? u[k] : Pack{};
  }
}

// Columns as rows, each times its factor; nothing is a negative zero.
template <class T, int D>
void join_multiplied(
    const T* columns, int64_t stride, int64_t count, const T (&factors)[D], T* rows) {
  using Wide = WidePack<T>;
  constexpr int64_t kW = kWidth<Wide, T>;
  int64_t p = 0;
  for (; p + kW <= count; p += kW) {
    Wide pack[D];
    for (int k = 0; k < D; ++k) {
      pack[k] = Memory<Wide, T>::load(columns + k * stride + p) * factors[k] + 0;
    }
    T block[D * kW];
    for (int k = 0; k < D; ++k) {
      Memory<Wide, T>::store(block + k * kW, pack[k]);
    }
    join_components(block, kW, kW, D, rows + p * D);
  }
  for (; p < count; ++p) {
    for (int k = 0; k < D; ++k) {
      rows[p * D + k] = columns[k * stride + p] * factors[k] + 0;
    }
  }
}

// Points relative to their origin, or to their mean in units of a power of two. A copy: what is in
// registers need not be read again after something is written.
template <int D>
struct Shift {
  Pack origin[D], mean[D], inverse;

  explicit Shift(const CloudAxes<D>& axes) : inverse(pack_of<Pack>(axes.inverse)) {
    for (int k = 0; k < D; ++k) {
      origin[k] = pack_of<Pack>(axes.origin[k]);
      mean[k] = pack_of<Pack>(axes.mean[k]);
    }
  }

  void shift(const Pack (&x)[D], Pack (&u)[D]) const {
    for (int k = 0; k < D; ++k) {
      u[k] = x[k] - origin[k];
    }
  }

  void centre(const Pack (&x)[D], Pack (&u)[D]) const {
    for (int k = 0; k < D; ++k) {
      u[k] = (x[k] - origin[k]) * inverse - mean[k];
    }
  }
};

// A cloud on its way: columns of one part of its points at a time, which are made once where one
// part is all.
template <class T, int D, bool kWeighted>
class HeldCloud {
 public:
  static constexpr bool kShort = sizeof(T) < sizeof(double);
  static constexpr int kEntries = D * (D + 1) / 2;

  static int64_t most_held(int64_t begin, int64_t end) {
    return end - begin < kPart<T> ? end - begin : kPart<T>;
  }

  // Numbers that are held of a cloud.
  static int64_t room(int64_t begin, int64_t end) {
    return (D + kWeighted) * column_stride(most_held(begin, end));
  }

  void begin(const PrincipalAxes<T>& op, int64_t cloud, T* columns, double (&scatter)[kEntries]) {
    op_ = &op;
    cloud_ = cloud;
    begin_ = op.ptr[cloud];
    end_ = op.ptr[cloud + 1];
    columns_ = columns;
    stride_ = column_stride(most_held(begin_, end_));
    held_ = -1;
    find_origin();
    if constexpr (kShort) {
      sum_at_once(scatter);
    } else {
      sum_in_turn(scatter);
    }
  }

  // The eigenvectors of the scatter matrix are in lane l.
  void finish(const Eigen<Pack, D>& eigen, int l) {
    axes_.turn(eigen, l);
    SquareSums<double, D> squares{};
    if constexpr (kShort) {
      squares = axes_.predict(eigen, l, op_->scale);
    }
    double matrix[D][D];
    axes_.guessed_projection(matrix);
    SquareSums<Pack, D> square_packs;
    CubeSums<Pack, D> cube_packs;
    each_part([&](int64_t, int64_t count) { project(matrix, count, square_packs, cube_packs); });
    axes_.finish(
        kShort ? squares : summed(square_packs), summed(cube_packs), op_->signs, op_->scale);
    axes_.store(*op_, cloud_);
    const bool whole = end_ - begin_ <= kPart<T>;
    each_part([&](int64_t first, int64_t count) {
      if (!whole) {
        project(matrix, count, square_packs, cube_packs);
      }
      write(first, count);
    });
  }

 private:
  void find_origin() {
    int64_t first = begin_;
    while (kWeighted && first < end_ && !(op_->weight[first] > 0)) {
      ++first;
    }
    for (int k = 0; k < D; ++k) {
      const bool some = op_->center && first < end_;
      axes_.origin[k] = some ? static_cast<double>(op_->x[first * D + k]) : 0;
    }
  }

  double total() const {
    double sum = static_cast<double>(end_ - begin_);
    if constexpr (kWeighted) {
      sum = 0;
      for (int64_t p = begin_; p < end_; ++p) {
        sum += static_cast<double>(op_->weight[p]);
      }
    }
    return sum;
  }

  template <class Run>
  void each_part(const Run& run) {
    for (int64_t first = begin_; first < end_; first += kPart<T>) {
      const int64_t count = end_ - first < kPart<T> ? end_ - first : kPart<T>;
      if (first != held_) {
        hold(first, count);
      }
      run(first, count);
    }
  }

  void hold(int64_t first, int64_t count) {
    to_columns<D>(op_->x + first * D, count, columns_, stride_);
    if constexpr (kWeighted) {
      to_columns<1>(op_->weight + first, count, columns_ + D * stride_, stride_);
    }
    // Coordinates take the place of points.
    held_ = end_ - begin_ <= kPart<T> ? first : -1;
  }

  // Call run(x, weight, p) for each register of points.
  template <class Run>
  void each(int64_t count, const Run& run) const {
    const T *columns = columns_, *weights = columns_ + D * stride_;
    const int64_t stride = stride_;
    int64_t p = 0;
    Pack x[D];
    for (; !kWeighted && p + kLanesOfPack <= count; p += kLanesOfPack) {
      load(columns + p, stride, x);
      run(x, Unweighted(), p);
    }
    for (; p < count; p += kLanesOfPack) {
      load(columns + p, stride, x);
      run(x, kWeighted ? Column<T>::load(weights + p) : first_lanes(count - p), p);
    }
  }

  void sum_at_once(double (&scatter)[kEntries]) {
    Moments<Pack, D> sums;
    Pack large = {};
    double largest = 0;
    const Shift<D> from(axes_);
    each_part([&](int64_t, int64_t count) {
      if constexpr (!kWeighted) {
        const double most = largest_magnitude<D>(columns_, stride_, count);
        largest = larger(largest, most);
      }
      each(count, [&](Pack(&x)[D], auto weight, int64_t) {
        Pack u[D];
        from.shift(x, u);
        keep(u, weight);
        sums.add(u, weight);
        if constexpr (kWeighted) {
          keep(x, weight);
          for (int k = 0; k < D; ++k) {
            const Pack size = magnitude(x[k]);
            large = size > large ? size : large;
          }
        }
      });
    });
    largest = larger(largest, largest_lane(large));
    axes_.begin(summed(sums), largest, total(), op_->center, op_->null_tol, scatter);
  }

  void sum_in_turn(double (&scatter)[kEntries]) {
    FirstSums<Pack, D> first;
    const Shift<D> from_first(axes_);
    each_part([&](int64_t, int64_t count) {
      each(count, [&](Pack(&x)[D], auto weight, int64_t) {
        Pack u[D];
        from_first.shift(x, u);
        keep(x, weight);
        keep(u, weight);
        first.add(x, u, weight);
      });
    });
    FirstSums<double, D> sums = summed(first);
    sums.largest = largest_lane(first.largest);
    sums.span = largest_lane(first.span);
    axes_.begin(sums, total(), op_->center, op_->null_tol);
    SecondSums<Pack, D> second;
    const Shift<D> from_mean(axes_);
    each_part([&](int64_t, int64_t count) {
      each(count, [&](Pack(&x)[D], auto weight, int64_t) {
        Pack u[D];
        from_mean.centre(x, u);
        keep(u, weight);
        second.add(u, weight);
      });
    });
    const SecondSums<double, D> found = summed(second);
    __builtin_memcpy(&scatter, &found, sizeof(scatter));
  }

  // Coordinates in place of the points, and sums of them in their own type.
  void project(
      const double (&matrix)[D][D],
      int64_t count,
      SquareSums<Pack, D>& squares,
      CubeSums<Pack, D>& cubes) const {
    using Few = typename Column<T>::Few;
    CubeSums<Few, D> of_part;
    SquareSums<Pack, D> square;
    Shift<D> from(axes_);
    for (int k = 0; k < D && kShort; ++k) {  // in one step
      from.origin[k] += from.mean[k];
    }
    Pack axes[D][D];
    for (int k = 0; k < D; ++k) {
      for (int i = 0; i < D; ++i) {
        axes[k][i] = pack_of<Pack>(matrix[k][i]);
      }
    }
    T* columns = columns_;
    const int64_t stride = stride_;
    each(count, [&](const Pack(&x)[D], auto weight, int64_t p) {
      Pack u[D], y[D];
      if constexpr (kShort) {
        from.shift(x, u);
      } else {
        from.centre(x, u);
      }
      for (int k = 0; k < D; ++k) {
        y[k] = along(u, axes[k]);
      }
      keep(y, weight);
      if constexpr (!kShort) {
        square.add(y, weight);
      }
      Few few[D];
      for (int k = 0; k < D; ++k) {
        few[k] = Column<T>::few(y[k]);
        Memory<Few, T>::store(columns + k * stride + p, few[k]);
      }
      of_part.add(few, Column<T>::few(weight));
    });
    for (int k = 0; k < D; ++k) {
      squares.square[k] += square.square[k];
      cubes.cube[k] += Column<T>::wide(of_part.cube[k]);
      cubes.size[k] += Column<T>::wide(of_part.size[k]);
    }
  }

  void write(int64_t first, int64_t count) const {
    T factors[D];
    for (int k = 0; k < D; ++k) {
      factors[k] = static_cast<T>(axes_.correction_of(k));
    }
    join_multiplied(columns_, stride_, count, factors, op_->y + first * D);
  }

  const PrincipalAxes<T>* op_;
  CloudAxes<D> axes_;
  int64_t cloud_, begin_, end_, held_, stride_;
  T* columns_;
};

// Clouds side by side whose scatter matrices are diagonalised together.
template <class T, int D, bool kWeighted>
class CloudGroup {
 public:
  using Cloud = HeldCloud<T, D, kWeighted>;
  static constexpr int64_t kRoom = (D + 1) * (kPart<T> + 2 * kLanes * kLanesOfPack);

  CloudGroup(const PrincipalAxes<T>& op, T* columns) : op_(op), columns_(columns) {}

  // Clouds from `first`, before `end`; returns how many.
  int embed(int64_t first, int64_t end) {
    int count = 0;
    Pack scatter[Cloud::kEntries] = {};
    for (int64_t used = 0; count < kLanesOfPack && first + count < end; ++count) {
      const int64_t cloud = first + count;
      const int64_t room = Cloud::room(op_.ptr[cloud], op_.ptr[cloud + 1]);
      if (count > 0 && used + room > kRoom) {
        break;
      }
      double entries[Cloud::kEntries];
      clouds_[count].begin(op_, cloud, columns_ + used, entries);
      for (int at = 0; at < Cloud::kEntries; ++at) {
        lane(scatter, at, count) = entries[at] * 0 == 0 ? entries[at] : 0;
      }
      used += room;
    }
    Eigen<Pack, D> eigen;
    solve(scatter, eigen);
    for (int l = 0; l < count; ++l) {
      clouds_[l].finish(eigen, l);
    }
    return count;
  }

 private:
  const PrincipalAxes<T>& op_;
  T* columns_;
  Cloud clouds_[kLanesOfPack];
};

template <class T, int D, bool kWeighted>
void embed_range(const PrincipalAxes<T>& op, int64_t begin, int64_t end, T* columns) {
  CloudGroup<T, D, kWeighted> group(op, columns);
  for (int64_t cloud = begin; cloud < end;) {
    cloud += group.embed(cloud, end);
  }
}

template <class T, int D>
void embed_any(const PrincipalAxes<T>& op, int64_t begin, int64_t end, T* columns) {
  op.weight ? embed_range<T, D, true>(op, begin, end, columns)
            : embed_range<T, D, false>(op, begin, end, columns);
}

template <class T, int D>
void differentiate_cloud(const PrincipalAxesBackward<T>& op, int64_t cloud, T* memory) {
  const int64_t begin = op.ptr[cloud], end = op.ptr[cloud + 1];
  const int64_t stride = column_stride(end - begin < kPart<T> ? end - begin : kPart<T>);
  T *ys = memory, *grads = memory + D * stride, *weights = memory + 2 * D * stride;
  int64_t held = -1;
  const auto each = [&](const auto& run, const auto& after) {
    for (int64_t first = begin; first < end; first += kPart<T>) {
      const int64_t count = end - first < kPart<T> ? end - first : kPart<T>;
      if (first != held) {
        to_columns<D>(op.y + first * D, count, ys, stride);
        to_columns<D>(op.grad_y + first * D, count, grads, stride);
        if (op.weight) {
          to_columns<1>(op.weight + first, count, weights, stride);
        }
        held = end - begin <= kPart<T> ? first : -1;
      }
      for (int64_t p = 0; p < count; p += kLanesOfPack) {
        Pack y[D], grad[D];
        load(ys + p, stride, y);
        load(grads + p, stride, grad);
        const Pack weight = op.weight ? Column<T>::load(weights + p) : first_lanes(count - p);
        keep(grad, weight);
        run(y, grad, weight, p);
      }
      after(first, count);
    }
  };
  GradientSums<Pack, D> sums;
  each(
      [&](const Pack(&y)[D], const Pack(&grad)[D], Pack weight, int64_t) {
        sums.add(y, grad, weight);
      },
      [](int64_t, int64_t) {});
  CloudGradient<D> gradient;
  gradient.find(summed(sums), op, cloud);
  each(
      [&](const Pack(&y)[D], const Pack(&grad)[D], Pack weight, int64_t p) {
        Pack out[D];
        gradient.apply(y, grad, weight, out);
        store(out, stride, grads + p);
      },
      [&](int64_t first, int64_t count) {
        join_components(grads, stride, count, D, op.grad_x + first * D);
      });
}

template <class T>
int embed_clouds(const PrincipalAxes<T>& op, int64_t begin, int64_t end) {
  const int64_t size = CloudGroup<T, 3, true>::kRoom;
  Scratch<T> memory(size);
  if (memory.failed()) {
    return kOutOfMemory;
  }
  T* columns = memory.take(size);
  op.dim == 1   ? embed_any<T, 1>(op, begin, end, columns)
  : op.dim == 2 ? embed_any<T, 2>(op, begin, end, columns)
                : embed_any<T, 3>(op, begin, end, columns);
  return 0;
}

template <class T>
int differentiate_clouds(const PrincipalAxesBackward<T>& op, int64_t begin, int64_t end) {
  const int64_t size = (2 * op.dim + 1) * column_stride(kPart<T>);
  Scratch<T> memory(size);
  if (memory.failed()) {
    return kOutOfMemory;
  }
  T* columns = memory.take(size);
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
