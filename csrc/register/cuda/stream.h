// PyTorch's current stream on the device of a tensor.
#pragma once

#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/tensor.h>

#include <optional>

namespace equigeo {

// The device is current while this lives. stream.cpp asks PyTorch; of the simulator there is
// another one, which has neither streams nor devices.
class Stream {
 public:
  explicit Stream(const torch::stable::Tensor& tensor);

  void* handle() const { return handle_; }

 private:
  std::optional<torch::stable::accelerator::DeviceGuard> guard_;
  void* handle_ = nullptr;
};

}  // namespace equigeo
