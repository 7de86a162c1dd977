// Running ops on PyTorch's current stream, through its stable interface.
#pragma once

#include "args/block_linear.h"
#include "args/channelwise_conv.h"
#include "args/products.h"
#include "args/so2_conv.h"
#include "kernels/cuda/launch.h"
#include "register/cuda/first_use.h"
#include "register/cuda/stream.h"
#include "register/tensors.h"

namespace equigeo {

// `error` is CUDA's name of what went wrong, or null.
inline void check_launch(const char* error) {
  EQUIGEO_CHECK(error == nullptr, "CUDA kernel launch failed: ", error);
}

// What an op gives back, not yet written.
inline Tensor new_result(const Tensor& like, Sizes sizes, bool* = nullptr) {
  return new_tensor(like, sizes);
}

template <class Op>
void run(const Op& op, const Tensor& like) {
  check_first_use(like);
  check_launch(launch(op, Stream(like).handle()));
}

// Launch an op that needs scratch memory. PyTorch may hand the memory on as soon as this returns:
// to what it queues on the same stream, which comes later.
template <class Op>
void run_with_scratch(const Op& op, const Tensor& like) {
  check_first_use(like);
  const Tensor scratch = new_tensor(like, {scratch_size(op)}, ScalarType::Byte);
  check_launch(launch(op, scratch.mutable_data_ptr(), Stream(like).handle()));
}

template <class S>
void run(const BlockLinear<S>& op, const Tensor& like) {
  run_with_scratch(op, like);
}

template <class S>
void run(const BlockLinearBackward<S>& op, const Tensor& like) {
  run_with_scratch(op, like);
}

template <class S>
void run(const ChannelwiseProduct<S>& op, const Tensor& like) {
  run_with_scratch(op, like);
}

template <class S>
void run(const ChannelwiseProductBackward<S>& op, const Tensor& like) {
  run_with_scratch(op, like);
}

template <class S>
void run(const ChannelwiseProductDoubleBackward<S>& op, const Tensor& like) {
  run_with_scratch(op, like);
}

template <class S>
void run(const ChannelwiseConv<S>& op, const Tensor& like) {
  run_with_scratch(op, like);
}

template <class S>
void run(const ChannelwiseConvBackward<S>& op, const Tensor& like) {
  run_with_scratch(op, like);
}

template <class S>
void run(const ChannelwiseConvDoubleBackward<S>& op, const Tensor& like) {
  run_with_scratch(op, like);
}

template <class T>
void run(const SO2Conv<T>& op, const Tensor& like) {
  run_with_scratch(op, like);
}

template <class T>
void run(const SO2ConvBackward<T>& op, const Tensor& like) {
  run_with_scratch(op, like);
}

}  // namespace equigeo
