// The stream of a tensor and the outcome of a launch, through the stable interface of PyTorch.
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/tensor.h>

#include <initializer_list>

#include "ops/tensors.h"

#define EQUIGEO_DEVICE CUDA

namespace equigeo {

// PyTorch's current stream on the device of a tensor, which is made current while this lives.
class Stream {
 public:
  explicit Stream(const torch::stable::Tensor& tensor) : guard_(tensor.get_device_index()) {
    STABLE_TORCH_ERROR_CODE_CHECK(
        aoti_torch_get_current_cuda_stream(tensor.get_device_index(), &handle_));
  }

  void* handle() const { return handle_; }

 private:
  torch::stable::accelerator::DeviceGuard guard_;
  void* handle_ = nullptr;
};

// `error` is CUDA's name of what went wrong, or null.
inline void check_launch(const char* error) {
  STD_TORCH_CHECK(error == nullptr, "CUDA kernel launch failed: ", error);
}

// What an op gives back, not yet written.
inline Tensor new_result(
    const Tensor& like, std::initializer_list<int64_t> sizes, bool* = nullptr) {
  return torch::stable::new_empty(like, sizes);
}

// Launch an op that needs scratch memory. PyTorch may hand the memory on as soon as this returns:
// to what it queues on the same stream, which comes later.
template <class Op>
void launch_with_scratch(const Op& op, const Tensor& like) {
  const Tensor scratch = torch::stable::new_empty(like, {scratch_size(op)}, ScalarType::Byte);
  check_launch(launch(op, scratch.mutable_data_ptr(), Stream(like).handle()));
}

}  // namespace equigeo
