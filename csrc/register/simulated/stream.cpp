// The simulator runs kernels at once, in the memory of the host.
#include "register/cuda/stream.h"

namespace equigeo {

Stream::Stream(const torch::stable::Tensor&) {}

}  // namespace equigeo
