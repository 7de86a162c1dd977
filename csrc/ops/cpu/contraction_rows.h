// Rows of the symmetric contraction in the layout of kernels, and the packs of one of their blocks.
#pragma once

#include "math/symmetric_contraction.h"
#include "ops/cpu/components.h"
#include "ops/cpu/scratch.h"

namespace equigeo {
namespace {

// The packs of one block of channels in rows of the layout of kernels.
template <class Pack, class T>
struct Packs {
  T* data;
  int64_t stride;

  EQUIGEO_HOST_DEVICE Pack load(int64_t i, int n) const {
    return Memory<Pack, T>::load(data + i * stride + n * kWidth<Pack, T>);
  }
  EQUIGEO_HOST_DEVICE void store(int64_t i, int n, Pack number) const {
    Memory<Pack, T>::store(data + i * stride + n * kWidth<Pack, T>, number);
  }
};

template <class Pack, class T>
EQUIGEO_HOST_DEVICE Packs<Pack, T> packs_at(Components<const T> rows, int64_t u) {
  return {const_cast<T*>(rows.data) + u, rows.stride};
}

// Where numbers come from and go to: one array without a derivative, two with one. Of results with
// a derivative that is kept alone.
template <class Number, class T>
struct Source {
  Packs<Number, T> value;

  EQUIGEO_HOST_DEVICE Number load(int64_t i, int n) const { return value.load(i, n); }
};

template <class Pack, class T>
struct Source<Dual<Pack>, T> {
  Packs<Pack, T> value, slope;

  EQUIGEO_HOST_DEVICE Dual<Pack> load(int64_t i, int n) const {
    return {value.load(i, n), slope.load(i, n)};
  }
};

template <class Pack, class T>
struct Sink {
  Packs<Pack, T> packs;

  template <class Number>
  EQUIGEO_HOST_DEVICE void store(int64_t i, int n, Number number) const {
    packs.store(i, n, last_part(number));
  }
  template <class Number>
  EQUIGEO_HOST_DEVICE void add(int64_t i, int n, Number number) const {
    packs.store(i, n, packs.load(i, n) + last_part(number));
  }
};

// A row in the layout of kernels, copied where it has another.
template <class T>
class RowScratch {
 public:
  RowScratch(const RowLayout& layout, int64_t channels, Scratch<T>& memory)
      : layout_(layout), channels_(channels), stride_(padded(channels)) {
    direct_ = channels % kLanes == 0;
    for (int64_t s = 0; s < layout.blocks; ++s) {
      direct_ = direct_ && layout.dim[s] == 1;
    }
    scratch_ = memory.take(size(layout, channels));
  }

  static int64_t size(const RowLayout& layout, int64_t channels) {
    return Scratch<T>::round_up(layout.components * padded(channels));
  }

  Components<const T> load(const T* row) {
    if (direct_) {
      return {row, channels_};
    }
    for_blocks([&](int64_t first, int64_t d) {
      fetch(row + first * channels_, false, channels_, d, scratch_ + first * stride_, stride_);
    });
    return {scratch_, stride_};
  }

  // Where to write the row before it is stored.
  Components<const T> open(T* row) const {
    return direct_ ? Components<const T>{row, channels_} : Components<const T>{scratch_, stride_};
  }

  void store(T* row) const {
    if (!direct_) {
      for_blocks([&](int64_t first, int64_t d) {
        put_back(scratch_ + first * stride_, stride_, false, channels_, d, row + first * channels_);
      });
    }
  }

 private:
  template <class Body>
  EQUIGEO_HOST_DEVICE void for_blocks(const Body& body) const {
    int64_t first = 0;
    for (int64_t s = 0; s < layout_.blocks; ++s) {
      body(first, layout_.dim[s]);
      first += layout_.dim[s];
    }
  }

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

// How many packs to compute together: as many as leave their nodes in the first cache.
constexpr int64_t kCache = 40 << 10;
constexpr int kMostPacks = 4;

inline int packs_together(int64_t bytes_of_one) {
  int packs = kMostPacks;
  while (packs > 1 && packs * bytes_of_one > kCache) {
    packs /= 2;
  }
  return packs;
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

template <class Number, class T>
constexpr int64_t kNumber = kWidth<Number, T>;

}  // namespace
}  // namespace equigeo
