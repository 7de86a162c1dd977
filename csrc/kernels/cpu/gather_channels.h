// All channels of a gathered sum, in blocks that fit the registers.
#pragma once

#include "kernels/cpu/pack.h"
#include "math/gather_sum.h"

namespace equigeo {
namespace {

template <class T, class Edges>
struct ChannelBlocks {
  const Edges& edges;
  EdgeRange segment;
  const T* rows;
  int64_t stride;
  T* out;
  int64_t left;

  // Handle as many blocks of N packs as fit into the channels that are left.
  template <class Pack, int N>
  EQUIGEO_HOST_DEVICE void take() {
    constexpr int64_t kBlock = N * kWidth<Pack, T>;
    for (; left >= kBlock; left -= kBlock, rows += kBlock, out += kBlock) {
      gather_sum<Pack, N>(edges, segment, rows, stride, out);
    }
  }
};

template <class T, class Edges>
EQUIGEO_HOST_DEVICE void gather_channels(
    const Edges& edges,
    EdgeRange segment,
    const T* rows,
    int64_t stride,
    T* out,
    int64_t channels) {
  ChannelBlocks<T, Edges> blocks{edges, segment, rows, stride, out, channels};
  blocks.template take<WidePack<T>, 8>();
  blocks.template take<WidePack<T>, 4>();
  blocks.template take<WidePack<T>, 2>();
  blocks.template take<WidePack<T>, 1>();
  blocks.template take<NarrowPack<T>, 1>();
  blocks.template take<T, 1>();
}

}  // namespace
}  // namespace equigeo
