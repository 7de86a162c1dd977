// Checks and views of tensors through the stable interface of PyTorch.
#pragma once

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <initializer_list>

#include "args/storage.h"

namespace equigeo {

using torch::stable::Tensor;
using ScalarType = torch::headeronly::ScalarType;

// Refuse another dtype, device or size. The Python wrapper says what is wrong more kindly; this
// keeps a direct call of the op inside its arrays.
inline void check_tensor(
    const char* name,
    const Tensor& tensor,
    const Tensor& like,
    ScalarType dtype,
    std::initializer_list<int64_t> sizes) {
  STD_TORCH_CHECK(tensor.scalar_type() == dtype, name, " has the wrong dtype");
  STD_TORCH_CHECK(
      tensor.is_cuda() == like.is_cuda() && tensor.get_device_index() == like.get_device_index(),
      name, " is on the wrong device");
  STD_TORCH_CHECK(
      tensor.dim() == static_cast<int64_t>(sizes.size()), name, " must have ", sizes.size(),
      " axes, got ", tensor.dim());
  int64_t axis = 0;
  for (const int64_t size : sizes) {
    STD_TORCH_CHECK(
        tensor.size(axis) == size, name, " must have size ", size, " along axis ", axis, ", got ",
        tensor.size(axis));
    ++axis;
  }
}

// The tensor after these checks, contiguous: gradients arrive expanded or strided.
inline Tensor checked(
    const char* name,
    const Tensor& tensor,
    const Tensor& like,
    ScalarType dtype,
    std::initializer_list<int64_t> sizes) {
  check_tensor(name, tensor, like, dtype, sizes);
  return tensor.is_contiguous() ? tensor : torch::stable::contiguous(tensor);
}

inline Tensor checked_index(
    const char* name, const Tensor& tensor, const Tensor& like, int64_t length) {
  return checked(name, tensor, like, ScalarType::Long, {length});
}

template <class T>
const T* read(const Tensor& tensor) {
  return static_cast<const T*>(tensor.const_data_ptr());
}

template <class T>
T* write(const Tensor& tensor) {
  return static_cast<T*>(tensor.mutable_data_ptr());
}

// Call `run` with a zero of the element type.
template <class Run>
void for_dtype(const Tensor& tensor, const Run& run) {
  const ScalarType dtype = tensor.scalar_type();
  STD_TORCH_CHECK(
      dtype == ScalarType::Float || dtype == ScalarType::Double,
      "features must be float32 or float64");
  dtype == ScalarType::Float ? run(0.0f) : run(0.0);
}

// As for_dtype, for ops that take bfloat16 too.
template <class Run>
void for_storage(const Tensor& tensor, const Run& run) {
  tensor.scalar_type() == ScalarType::BFloat16 ? run(Bf16{}) : for_dtype(tensor, run);
}

}  // namespace equigeo
