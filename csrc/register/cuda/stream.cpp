#include "register/cuda/stream.h"

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

namespace equigeo {

Stream::Stream(const torch::stable::Tensor& tensor) : guard_(tensor.get_device_index()) {
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(tensor.get_device_index(), &handle_));
}

}  // namespace equigeo
