// Compiled once per instruction set: no torch, no C++ standard headers.
//
// Every pass goes through the rows once for each block of channels that fits the registers. The
// rows of a part stay in the nearest cache until its statistics are known.
#include "kernels/cpu/kernels.h"

#include "kernels/cpu/pack.h"
#include "math/relu_batch_norm.h"

namespace equigeo {
namespace {

struct RowRange {
  int64_t begin, end;
};

template <class T>
RowRange rows_of(const RectifiedSum<T>& sum, int64_t part) {
  const int64_t begin = part * sum.rows_of_part, end = begin + sum.rows_of_part;
  return {begin, end < sum.rows ? end : sum.rows};
}

// Call block.run<Pack, N>(c) for blocks of N packs that begin at channel c, until all are done.
template <class T, class Block>
class ChannelPasses {
 public:
  explicit ChannelPasses(const Block& block) : block_(block) {}

  void run(int64_t channels) {
    left_ = channels;
    take<WidePack<T>, 4>();
    take<WidePack<T>, 1>();
    take<NarrowPack<T>, 1>();
    take<T, 1>();
  }

 private:
  template <class Pack, int N>
  void take() {
    constexpr int64_t kBlock = N * kWidth<Pack, T>;
    const Block block = block_;  // which no store can change
    for (; left_ >= kBlock; left_ -= kBlock, first_ += kBlock) {
      block.template run<Pack, N>(first_);
    }
  }

  const Block& block_;
  int64_t first_ = 0, left_ = 0;
};

template <class T, class Block>
void pass_channels(const Block& block, int64_t channels) {
  ChannelPasses<T, Block>(block).run(channels);
}

// N packs of a vector of all channels.
template <class Pack, int N, class T>
EQUIGEO_HOST_DEVICE void load_packs(const T* from, Pack* to) {
  EQUIGEO_UNROLL
  for (int n = 0; n < N; ++n) {
    to[n] = Memory<Pack, T>::load(from + n * kWidth<Pack, T>);
  }
}

// N packs as numbers of double precision.
template <class Pack, int N, class T>
EQUIGEO_HOST_DEVICE void put_packs(const Pack* from, double* to) {
  constexpr int kW = kWidth<Pack, T>;
  T numbers[N * kW];
  EQUIGEO_UNROLL
  for (int n = 0; n < N; ++n) {
    Memory<Pack, T>::store(numbers + n * kW, from[n]);
  }
  for (int k = 0; k < N * kW; ++k) {
    to[k] = numbers[k];
  }
}

// Mean and sum of squared differences from it, over the rows of a part.
template <class T>
struct Statistics {
  const RectifiedSum<T> op;
  int64_t part;

  template <class Pack, int N>
  void run(int64_t c) const {
    const RowRange rows = rows_of(op, part);
    constexpr int kW = kWidth<Pack, T>;
    Pack sum[N] = {};
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      EQUIGEO_UNROLL
      for (int n = 0; n < N; ++n) {
        sum[n] += rectified(sum_at<Pack>(op, r * op.channels + c + n * kW));
      }
    }
    const T inverse = T(1) / T(rows.end - rows.begin);
    Pack mean[N], square[N] = {};
    EQUIGEO_UNROLL
    for (int n = 0; n < N; ++n) {
      mean[n] = sum[n] * inverse;
    }
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      EQUIGEO_UNROLL
      for (int n = 0; n < N; ++n) {
        const Pack away = rectified(sum_at<Pack>(op, r * op.channels + c + n * kW)) - mean[n];
        square[n] += away * away;
      }
    }
    put_packs<Pack, N, T>(mean, op.means + part * op.channels + c);
    put_packs<Pack, N, T>(square, op.squares + part * op.channels + c);
  }
};

template <class T>
int take_statistics(const RectifiedSum<T>& op, int64_t begin, int64_t end) {
  for (int64_t part = begin; part < end; ++part) {
    pass_channels<T>(Statistics<T>{op, part}, op.channels);
  }
  return 0;
}

template <class T>
struct Normalized {
  const ReluBatchNorm<T> op;
  RowRange rows;

  template <class Pack, int N>
  void run(int64_t c) const {
    constexpr int kW = kWidth<Pack, T>;
    Pack scale[N], shift[N];
    load_packs<Pack, N>(op.scale + c, scale);
    load_packs<Pack, N>(op.shift + c, shift);
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      EQUIGEO_UNROLL
      for (int n = 0; n < N; ++n) {
        const int64_t at = r * op.sum.channels + c + n * kW;
        const Pack out = scaled(rectified(sum_at<Pack>(op.sum, at)), scale[n], shift[n]);
        Memory<Pack, T>::store(op.out + at, op.rectify ? rectified(out) : out);
      }
    }
  }
};

template <class T>
int normalize(const ReluBatchNorm<T>& op, int64_t begin, int64_t end) {
  pass_channels<T>(Normalized<T>{op, {begin, end}}, op.sum.channels);
  return 0;
}

// What arrives at the normalised sum, at element `at`.
template <class Pack, class T>
EQUIGEO_HOST_DEVICE Pack
arriving(const ReluBatchNormBackward<T>& op, int64_t at, Pack value, Pack scale, Pack shift) {
  const Pack grad = Memory<Pack, T>::load(op.grad_out + at);
  return op.forward.rectify ? where_positive(scaled(value, scale, shift), grad) : grad;
}

// Gradients of shift and scale, over the rows of a part.
template <class T>
struct Slopes {
  const ReluBatchNormBackward<T> op;
  int64_t part;

  template <class Pack, int N>
  void run(int64_t c) const {
    const RectifiedSum<T> sum = op.forward.sum;
    const RowRange rows = rows_of(sum, part);
    constexpr int kW = kWidth<Pack, T>;
    Pack scale[N], shift[N], mean[N], inverse[N], total[N] = {}, product[N] = {};
    load_packs<Pack, N>(op.forward.scale + c, scale);
    load_packs<Pack, N>(op.forward.shift + c, shift);
    load_packs<Pack, N>(op.mean + c, mean);
    load_packs<Pack, N>(op.inverse + c, inverse);
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      EQUIGEO_UNROLL
      for (int n = 0; n < N; ++n) {
        const int64_t at = r * sum.channels + c + n * kW;
        const Pack value = rectified(sum_at<Pack>(sum, at));
        const Pack grad = arriving<Pack>(op, at, value, scale[n], shift[n]);
        total[n] += grad;
        product[n] += grad * (value - mean[n]);
      }
    }
    EQUIGEO_UNROLL
    for (int n = 0; n < N; ++n) {
      product[n] *= inverse[n];
    }
    put_packs<Pack, N, T>(total, op.sums + part * sum.channels + c);
    put_packs<Pack, N, T>(product, op.products + part * sum.channels + c);
  }
};

template <class T>
int sum_slopes(const ReluBatchNormBackward<T>& op, int64_t begin, int64_t end) {
  for (int64_t part = begin; part < end; ++part) {
    pass_channels<T>(Slopes<T>{op, part}, op.forward.sum.channels);
  }
  return 0;
}

template <class T>
struct Differentiated {
  const ReluBatchNormBackward<T> op;
  RowRange rows;

  template <class Pack, int N>
  void run(int64_t c) const {
    const RectifiedSum<T> sum = op.forward.sum;
    constexpr int kW = kWidth<Pack, T>;
    Pack scale[N], shift[N], mean[N], to_mean[N], to_square[N];
    load_packs<Pack, N>(op.forward.scale + c, scale);
    load_packs<Pack, N>(op.forward.shift + c, shift);
    load_packs<Pack, N>(op.mean + c, mean);
    load_packs<Pack, N>(op.to_mean + c, to_mean);
    load_packs<Pack, N>(op.to_square + c, to_square);
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      EQUIGEO_UNROLL
      for (int n = 0; n < N; ++n) {
        const int64_t at = r * sum.channels + c + n * kW;
        const Pack before = sum_at<Pack>(sum, at), value = rectified(before);
        const Pack grad = arriving<Pack>(op, at, value, scale[n], shift[n]);
        const Pack slope = scale[n] * grad - to_mean[n] - to_square[n] * (value - mean[n]);
        Memory<Pack, T>::store(op.grad_x + at, where_positive(before, slope));
      }
    }
  }
};

template <class T>
int differentiate(const ReluBatchNormBackward<T>& op, int64_t begin, int64_t end) {
  pass_channels<T>(Differentiated<T>{op, {begin, end}}, op.forward.sum.channels);
  return 0;
}

}  // namespace

const Kernels<RectifiedSum> EQUIGEO_FOR_ISA(rectified_sum_parts) = {
    take_statistics<float>, take_statistics<double>};
const Kernels<ReluBatchNorm> EQUIGEO_FOR_ISA(relu_batch_norm_rows) = {
    normalize<float>, normalize<double>};
const Kernels<ReluBatchNormBackward> EQUIGEO_FOR_ISA(relu_batch_norm_backward_parts) = {
    sum_slopes<float>, sum_slopes<double>};
const Kernels<ReluBatchNormBackward> EQUIGEO_FOR_ISA(relu_batch_norm_backward_rows) = {
    differentiate<float>, differentiate<double>};

}  // namespace equigeo
