// Rows of the symmetric contraction in the layout of kernels, and the packs of one of their blocks.
#pragma once

#include "kernels/cpu/components.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/tiles.h"
#include "math/symmetric_contraction.h"

namespace equigeo {
namespace {

// Where numbers come from: one array, or two for numbers with a derivative.
template <class Number, class T>
struct Source {
  Components<const T> value;

  EQUIGEO_HOST_DEVICE Source at(int64_t u) const { return {{value.data + u, value.stride}}; }
  EQUIGEO_HOST_DEVICE Number load(int64_t i, int n) const {
    return Memory<Number, T>::load(value.data + i * value.stride + n * kWidth<Number, T>);
  }
};

template <class Pack, class T>
struct Source<Dual<Pack>, T> {
  Source<Pack, T> value, slope;

  EQUIGEO_HOST_DEVICE Source at(int64_t u) const { return {value.at(u), slope.at(u)}; }
  EQUIGEO_HOST_DEVICE Dual<Pack> load(int64_t i, int n) const {
    return {value.load(i, n), slope.load(i, n)};
  }
};

// Where results go to; of numbers with a derivative, that is the result.
template <class T>
struct Sink {
  Components<T> rows;

  EQUIGEO_HOST_DEVICE Sink at(int64_t u) const { return {{rows.data + u, rows.stride}}; }
  template <class Number>
  EQUIGEO_HOST_DEVICE void store(int64_t i, int n, Number number) const {
    using Pack = WidePack<T>;
    Memory<Pack, T>::store(address(i, n), last_part(number));
  }
  template <class Number>
  EQUIGEO_HOST_DEVICE void add(int64_t i, int n, Number number) const {
    using Pack = WidePack<T>;
    const Pack sum = Memory<Pack, T>::load(address(i, n)) + last_part(number);
    Memory<Pack, T>::store(address(i, n), sum);
  }
  EQUIGEO_HOST_DEVICE T* address(int64_t i, int n) const {
    return rows.data + i * rows.stride + n * kWidth<WidePack<T>, T>;
  }
};

// A row in the layout of kernels, copied where it has another.
template <class T>
class RowScratch {
 public:
  RowScratch(const RowLayout& layout, int64_t channels, Scratch<T>& memory)
      : layout_(layout),
        channels_(channels),
        stride_(padded(channels)),
        direct_(channels % kLanes == 0),
        scratch_(memory.take(size(layout, channels))) {
    for (int64_t s = 0; s < layout.blocks; ++s) {
      direct_ = direct_ && layout.dim[s] == 1;
    }
  }

  static int64_t size(const RowLayout& layout, int64_t channels) {
    return Scratch<T>::round_up(layout.components * padded(channels));
  }

  // Row r of a tensor.
  Components<const T> load(const T* all, int64_t r) {
    const T* row = all + r * channels_ * layout_.components;
    if (direct_) {
      return {row, channels_};
    }
    for (int64_t s = 0, first = 0; s < layout_.blocks; first += layout_.dim[s++]) {
      const T* from = row + first * channels_;
      T* to = scratch_ + first * stride_;
      if (in_tiles(layout_.dim[s])) {
        transpose(from, layout_.dim[s], layout_.dim[s], channels_, to, stride_);
      } else {
        split_components(from, channels_, layout_.dim[s], to, stride_);
      }
    }
    for (int64_t i = 0; i < layout_.components; ++i) {  // padding must not poison sums
      fill_zero(scratch_ + i * stride_ + channels_, stride_ - channels_);
    }
    return {scratch_, stride_};
  }

  // Where to write a row before it is stored.
  Components<T> open(T* row) const {
    return direct_ ? Components<T>{row, channels_} : Components<T>{scratch_, stride_};
  }

  void store(T* row) const {
    for (int64_t s = 0, first = 0; s < layout_.blocks && !direct_; first += layout_.dim[s++]) {
      const T* from = scratch_ + first * stride_;
      T* to = row + first * channels_;
      if (in_tiles(layout_.dim[s])) {
        transpose(from, stride_, channels_, layout_.dim[s], to, layout_.dim[s]);
      } else {
        join_components(from, stride_, channels_, layout_.dim[s], to);
      }
    }
  }

 private:
  // Few components have shuffles of their own.
  static bool in_tiles(int64_t d) { return d == 4 || d == 6 || d > 7; }

  const RowLayout& layout_;
  int64_t channels_, stride_;
  bool direct_;
  T* scratch_;
};

// One set of weights.
template <class T>
class WeightScratch {
 public:
  WeightScratch(int64_t weights, int64_t channels, Scratch<T>& memory)
      : weights_(weights), channels_(channels), scratch_(memory.take(size(weights, channels))) {}

  static int64_t size(int64_t weights, int64_t channels) {
    return Scratch<T>::round_up(weights * padded(channels));
  }

  Components<const T> load(const T* all, int64_t set) {
    const T* from = all + set * weights_ * channels_;
    if (channels_ % kLanes == 0) {
      return {from, channels_};
    }
    if (set != set_) {
      fetch(from, true, channels_, weights_, scratch_, padded(channels_));
      set_ = set;
    }
    return {scratch_, padded(channels_)};
  }

 private:
  int64_t weights_, channels_, set_ = -1;
  T* scratch_;
};

// How many numbers to compute together: as many as leave their nodes in the first cache.
inline int numbers_together(int64_t bytes_of_one) {
  constexpr int64_t kCache = 40 << 10;
  return 4 * bytes_of_one <= kCache ? 4 : 2 * bytes_of_one <= kCache ? 2 : 1;
}

// Call block.template at<N>(u) for all channels from u on, N packs at a time.
template <class T, class Block>
EQUIGEO_HOST_DEVICE void for_channels(int64_t channels, int most, const Block& block) {
  constexpr int64_t kW = kWidth<WidePack<T>, T>;
  int64_t u = 0;
  for (; most >= 4 && u + 4 * kW <= channels; u += 4 * kW) {
    block.template at<4>(u);
  }
  for (; most >= 2 && u + 2 * kW <= channels; u += 2 * kW) {
    block.template at<2>(u);
  }
  for (; u < channels; u += kW) {
    block.template at<1>(u);
  }
}

}  // namespace
}  // namespace equigeo
