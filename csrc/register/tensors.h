// Checks and views of tensors through the stable interface of PyTorch.
#pragma once

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <initializer_list>
#include <optional>

#include "args/storage.h"
#include "register/check.h"

namespace equigeo {

using torch::stable::Tensor;
using ScalarType = torch::headeronly::ScalarType;
using Optional = std::optional<Tensor>;
using Sizes = std::initializer_list<int64_t>;

// The longest row. A tensor without rows can claim any number of columns, and what is computed from
// several such numbers must not overflow.
constexpr int64_t kMostComponents = (int64_t{1} << 31) - 1;

inline void check_components(const char* name, int64_t count) {
  EQUIGEO_CHECK(
      0 <= count && count <= kMostComponents, name, " must be from 0 to ", kMostComponents,
      ", got ", count);
}

[[noreturn]] inline void refuse_shape(Sizes sizes) {
  std::ostringstream shape;
  for (const int64_t size : sizes) {
    shape << (shape.tellp() > 0 ? ", " : "") << size;
  }
  refuse("a tensor of shape (", shape.str(), ") does not fit into memory");
}

// Elements of a new tensor; raises for more than any machine holds, before anything overflows.
inline int64_t elements_of(Sizes sizes) {
  constexpr int64_t kMost = int64_t{1} << 44;
  int64_t elements = 1;
  bool empty = false, fits = true;
  for (const int64_t size : sizes) {
    EQUIGEO_CHECK(size >= 0, "sizes must not be negative, got ", size);
    empty |= size == 0;
    fits = fits && !__builtin_mul_overflow(elements, size, &elements) && elements <= kMost;
  }
  if (!empty && !fits) {
    refuse_shape(sizes);
  }
  return empty ? 0 : elements;
}

// A tensor like another, not yet written. PyTorch's own errors name their place in its sources
// instead of the size.
inline Tensor new_tensor(
    const Tensor& like, Sizes sizes, std::optional<ScalarType> dtype = std::nullopt) {
  elements_of(sizes);
  try {
    return torch::stable::new_empty(like, sizes, dtype);
  } catch (const std::exception&) {
    refuse_shape(sizes);
  }
}

inline Tensor new_zeros(
    const Tensor& like, Sizes sizes, std::optional<ScalarType> dtype = std::nullopt) {
  elements_of(sizes);
  try {
    return torch::stable::new_zeros(like, sizes, dtype);
  } catch (const std::exception&) {
    refuse_shape(sizes);
  }
}

// Whether an op that writes these has nothing to do. There may then be any number of rows.
inline bool all_empty(std::initializer_list<const Tensor*> results) {
  for (const Tensor* result : results) {
    if (result->numel() > 0) {
      return false;
    }
  }
  return true;
}

// Raise for another dtype, device or size. The Python wrapper has clearer messages; this keeps
// a direct call of the op inside its arrays.
inline void check_tensor(
    const char* name, const Tensor& tensor, const Tensor& like, ScalarType dtype, Sizes sizes) {
  EQUIGEO_CHECK(
      tensor.scalar_type() == dtype, name, " must be ", toString(dtype), ", got ",
      toString(tensor.scalar_type()));
  EQUIGEO_CHECK(
      tensor.is_cuda() == like.is_cuda() && tensor.get_device_index() == like.get_device_index(),
      name, " is on another device than the features");
  EQUIGEO_CHECK(
      tensor.dim() == static_cast<int64_t>(sizes.size()), name, " must have ", sizes.size(),
      " axes, got ", tensor.dim());
  int64_t axis = 0;
  for (const int64_t size : sizes) {
    EQUIGEO_CHECK(
        tensor.size(axis) == size, name, " must have size ", size, " along axis ", axis, ", got ",
        tensor.size(axis));
    ++axis;
  }
}

// Gradients arrive expanded or strided.
inline Tensor contiguous(const char* name, const Tensor& tensor) {
  if (tensor.is_contiguous()) {
    return tensor;
  }
  try {
    return torch::stable::contiguous(tensor);
  } catch (const std::exception&) {
    refuse(name, " has ", tensor.numel(), " elements, whose copy does not fit into memory");
  }
}

// The tensor after these checks, contiguous.
inline Tensor checked(
    const char* name, const Tensor& tensor, const Tensor& like, ScalarType dtype, Sizes sizes) {
  check_tensor(name, tensor, like, dtype, sizes);
  return contiguous(name, tensor);
}

inline Tensor checked_index(
    const char* name, const Tensor& tensor, const Tensor& like, int64_t length) {
  return checked(name, tensor, like, ScalarType::Long, {length});
}

// Of an argument that may be missing.
inline Optional checked_or_none(
    const char* name, const Optional& tensor, const Tensor& like, Sizes sizes) {
  if (!tensor.has_value()) {
    return std::nullopt;
  }
  return checked(name, *tensor, like, like.scalar_type(), sizes);
}

template <class T>
const T* read(const Tensor& tensor) {
  return static_cast<const T*>(tensor.const_data_ptr());
}

template <class T>
const T* read_or_null(const Optional& tensor) {
  return tensor.has_value() ? read<T>(*tensor) : nullptr;
}

template <class T>
T* write(const Tensor& tensor) {
  return static_cast<T*>(tensor.mutable_data_ptr());
}

// Call `run` with a zero of the element type.
template <class Run>
void for_dtype(const Tensor& tensor, const Run& run) {
  const ScalarType dtype = tensor.scalar_type();
  EQUIGEO_CHECK(
      dtype == ScalarType::Float || dtype == ScalarType::Double,
      "features must be float32 or float64, got ", toString(dtype));
  dtype == ScalarType::Float ? run(0.0f) : run(0.0);
}

// As for_dtype, for ops that take bfloat16 too.
template <class Run>
void for_storage(const Tensor& tensor, const Run& run) {
  tensor.scalar_type() == ScalarType::BFloat16 ? run(Bf16{}) : for_dtype(tensor, run);
}

}  // namespace equigeo
