// Compiled once per instruction set: no torch, no C++ standard headers.
#include "ops/cpu/channelwise_product.h"

#include "ops/cpu/edge_product.h"
#include "ops/cpu/rows.h"
#include "ops/cpu/run_blocks.h"

namespace equigeo {
namespace {

// The first input of a row in the layout of kernels, copied only where it has another.
template <class T>
class FirstInput {
 public:
  FirstInput(const Paths<T>& paths, T* scratch) : paths_(paths), scratch_(scratch) {}

  void load(const T* row) {
    row_ = row;
    for (int64_t s = 0; s < paths_.segments; ++s) {
      const Segment1 segment = paths_.segment[s];
      if (!in_place(paths_.ir_mul, segment.mul, segment.d)) {
        fetch(
            row + segment.offset, paths_.ir_mul, segment.mul, segment.d, scratch_ + segment.place,
            padded(segment.mul));
      }
    }
  }

  Components<const T> of(int64_t p) const {
    const Path& path = paths_.path[p];
    if (in_place(paths_.ir_mul, path.mul, path.d1)) {
      return {row_ + path.x, path.mul};
    }
    return {scratch_ + paths_.place[p].x, padded(path.mul)};
  }

 private:
  const Paths<T>& paths_;
  T* scratch_;
  const T* row_ = nullptr;
};

// What both passes read of a row, copied only where the tensor stores another type.
template <class S>
struct RowBuffers {
  using T = Compute<S>;

  static int64_t size(const Paths<T>& paths) {
    return Scratch<T>::round_up(scratch_row<S>(paths.dim_x)) +
           Scratch<T>::round_up(scratch_row<S>(paths.dim_y)) +
           Scratch<T>::round_up(scratch_row<S>(paths.dim_weight));
  }

  RowBuffers(const Paths<T>& paths, Scratch<T>& memory)
      : x(memory.take(scratch_row<S>(paths.dim_x))),
        y(memory.take(scratch_row<S>(paths.dim_y))),
        weight(memory.take(scratch_row<S>(paths.dim_weight))) {}

  T* x;
  T* y;
  T* weight;
};

template <class S>
class Forward {
 public:
  using T = Compute<S>;
  static constexpr int64_t kEdges = EdgeMatrices<T>::kEdges;

  explicit Forward(const ChannelwiseProduct<S>& op)
      : op_(op),
        paths_(op.paths),
        memory_(
            PathScratch<T>::size(paths_) + EdgeMatrices<T>::size(paths_) +
            RowBuffers<S>::size(paths_) + Scratch<T>::round_up(paths_.padded_x) +
            Scratch<T>::round_up(paths_.largest_slot) +
            RowWriter<S>::size(paths_.dim_out, op.stream)),
        scratch_(paths_, memory_),
        matrices_(paths_, memory_),
        rows_(paths_, memory_),
        x_(paths_, memory_.take(paths_.padded_x)),
        slot_(memory_.take(paths_.largest_slot)),
        out_(paths_.dim_out, op.stream, memory_) {}

  bool failed() const { return memory_.failed(); }

  // No more rows than the lanes of a register.
  void run(const Block& block) {
    for (int64_t e = 0; e < block.rows; ++e) {
      const S* y = op_.y + (block.begin + e) * paths_.dim_y;
      matrices_.load(e, read_row(y, paths_.dim_y, rows_.y));
    }
    matrices_.compute();
    for (int64_t e = 0; e < block.rows; ++e) {
      row(block.begin + e, e);
    }
    finish_streams();
  }

 private:
  void row(int64_t e, int64_t lane) {
    T* out = out_.begin(op_.out + e * paths_.dim_out);
    const T* weight =
        read_row(row_or_null(op_.weight, e, paths_.dim_weight), paths_.dim_weight, rows_.weight);
    x_.load(read_row(op_.x + e * paths_.dim_x, paths_.dim_x, rows_.x));
    if (!paths_.covers) {
      fill_zero(out, paths_.dim_out);
    }
    for (int64_t p = 0; p < paths_.count; ++p) {
      const Path& path = paths_.path[p];
      const Place place = paths_.place[p];
      const bool direct = in_place(paths_.ir_mul, path.mul, path.d3);
      const Components<T> into =
          direct ? Components<T>{out + path.out, path.mul} : Components<T>{slot_, padded(path.mul)};
      path_forward(paths_, p, {matrices_, lane, x_.of(p), weight}, into, !place.opens, scratch_);
      if (place.closes && !direct) {
        put_back(slot_, into.stride, paths_.ir_mul, path.mul, path.d3, out + path.out);
      }
    }
    out_.finish();
  }

  const ChannelwiseProduct<S>& op_;
  const Paths<T>& paths_;
  Scratch<T> memory_;
  PathScratch<T> scratch_;
  EdgeMatrices<T> matrices_;
  RowBuffers<S> rows_;
  FirstInput<T> x_;
  T* slot_;
  RowWriter<S> out_;
};

template <class S>
class Backward {
 public:
  using T = Compute<S>;
  static constexpr int64_t kEdges = EdgeMatrices<T>::kEdges;

  explicit Backward(const ChannelwiseProductBackward<S>& op)
      : op_(op),
        paths_(op.paths),
        memory_(
            PathScratch<T>::size(paths_) + EdgeMatrices<T>::size(paths_) +
            RowBuffers<S>::size(paths_) + 2 * Scratch<T>::round_up(paths_.padded_x) +
            Scratch<T>::round_up(scratch_row<S>(paths_.dim_out)) +
            RowWriter<S>::size(paths_.dim_x) + RowWriter<S>::size(paths_.dim_y) +
            RowWriter<S>::size(paths_.dim_weight) + Scratch<T>::round_up(paths_.largest_slot) +
            Scratch<T>::round_up(paths_.dim_y * kEdges)),
        scratch_(paths_, memory_),
        matrices_(paths_, memory_),
        rows_(paths_, memory_),
        arrived_(memory_.take(scratch_row<S>(paths_.dim_out))),
        grad_x_(paths_.dim_x, false, memory_),
        grad_y_(paths_.dim_y, false, memory_),
        grad_weight_(paths_.dim_weight, false, memory_),
        x_(paths_, memory_.take(paths_.padded_x)),
        slope_(memory_.take(paths_.padded_x)),
        slot_(memory_.take(paths_.largest_slot)),
        lanes_(memory_.take(paths_.dim_y * kEdges)) {}

  bool failed() const { return memory_.failed(); }

  void run(const Block& block) {
    for (int64_t e = 0; e < block.rows; ++e) {
      const S* y = op_.y + (block.begin + e) * paths_.dim_y;
      matrices_.load(e, read_row(y, paths_.dim_y, rows_.y));
    }
    matrices_.compute();
    for (int64_t e = 0; e < block.rows; ++e) {
      row(block.begin + e, e);
    }
  }

 private:
  void row(int64_t e, int64_t lane) {
    const T* grad = read_row(op_.grad + e * paths_.dim_out, paths_.dim_out, arrived_);
    const T* weight =
        read_row(row_or_null(op_.weight, e, paths_.dim_weight), paths_.dim_weight, rows_.weight);
    T* grad_weight = grad_weight_.begin(row_or_null(op_.grad_weight, e, paths_.dim_weight));
    x_.load(read_row(op_.x + e * paths_.dim_x, paths_.dim_x, rows_.x));
    if (grad_weight != nullptr && !paths_.covers_weight) {
      fill_zero(grad_weight, paths_.dim_weight);
    }
    fill_zero(slope_, paths_.padded_x);
    fill_zero(lanes_, paths_.dim_y * kEdges);
    for (int64_t p = 0; p < paths_.count; ++p) {
      const RowGradients<T> into{slope_ + paths_.place[p].x, grad_weight, lanes_};
      path_backward(
          paths_, p, {matrices_, lane, x_.of(p), weight}, arriving(grad, p), into, scratch_);
    }
    grad_weight_.finish();
    finish_x(grad_x_.begin(op_.grad_x + e * paths_.dim_x));
    sum_registers(lanes_, paths_.dim_y, grad_y_.begin(op_.grad_y + e * paths_.dim_y));
    grad_y_.finish();
  }

  void finish_x(T* grad_x) {
    if (!paths_.covers_x) {
      fill_zero(grad_x, paths_.dim_x);
    }
    for (int64_t s = 0; s < paths_.segments; ++s) {
      const Segment1 segment = paths_.segment[s];
      put_back(
          slope_ + segment.place, padded(segment.mul), paths_.ir_mul, segment.mul, segment.d,
          grad_x + segment.offset);
    }
    grad_x_.finish();
  }

  Components<const T> arriving(const T* grad, int64_t p) {
    const Path& path = paths_.path[p];
    if (in_place(paths_.ir_mul, path.mul, path.d3)) {
      return {grad + path.out, path.mul};
    }
    if (paths_.place[p].opens) {
      fetch(grad + path.out, paths_.ir_mul, path.mul, path.d3, slot_, padded(path.mul));
    }
    return {slot_, padded(path.mul)};
  }

  const ChannelwiseProductBackward<S>& op_;
  const Paths<T>& paths_;
  Scratch<T> memory_;
  PathScratch<T> scratch_;
  EdgeMatrices<T> matrices_;
  RowBuffers<S> rows_;
  T* arrived_;
  RowWriter<S> grad_x_, grad_y_, grad_weight_;
  FirstInput<T> x_;
  T* slope_;
  T* slot_;
  T* lanes_;  // gradient of y, a register for each number
};

template <class S>
int product_rows(const ChannelwiseProduct<S>& op, int64_t begin, int64_t end) {
  return run_blocks<Forward<S>>(op, begin, end, Forward<S>::kEdges);
}

template <class S>
int product_backward_rows(const ChannelwiseProductBackward<S>& op, int64_t begin, int64_t end) {
  return run_blocks<Backward<S>>(op, begin, end, Backward<S>::kEdges);
}

}  // namespace

const Kernels<ChannelwiseProduct> EQUIGEO_FOR_ISA(channelwise_product_rows) = {
    product_rows<float>, product_rows<double>, product_rows<Bf16>};
const Kernels<ChannelwiseProductBackward> EQUIGEO_FOR_ISA(channelwise_product_backward_rows) = {
    product_backward_rows<float>, product_backward_rows<double>, product_backward_rows<Bf16>};

}  // namespace equigeo
