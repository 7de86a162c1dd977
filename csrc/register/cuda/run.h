// Running ops on PyTorch's current stream, through its stable interface.
#pragma once

#include "kernels/cuda/launch.h"
#include "register/cuda/first_use.h"
#include "register/cuda/kept_memory.h"
#include "register/cuda/loaded_tables.h"
#include "register/cuda/stream.h"
#include "register/tensors.h"

namespace equigeo {

// What an op gives back, not yet written.
inline Tensor new_result(const Tensor& like, Sizes sizes, bool* = nullptr) {
  return new_tensor(like, sizes);
}

// PyTorch may hand scratch memory on as soon as this returns: to what it queues on the same stream,
// which comes later.
template <class Op>
void run_on(const Op& op, const Tensor& like, const Stream& stream) {
  const int64_t size = scratch_size(op);
  const Tensor scratch = size > 0 ? new_tensor(like, {size}, ScalarType::Byte) : Tensor();
  void* memory = size > 0 ? scratch.mutable_data_ptr() : nullptr;
  const char* error = launch(op, memory, stream.handle());
  EQUIGEO_CHECK(error == nullptr, "CUDA kernel launch failed: ", error);
}

template <class Op>
void run(const Op& op, const Tensor& like) {
  check_first_use(like);
  const Stream stream(like);
  if constexpr (kHasTable<Op>) {
    Op complete = op;
    auto& table = table_of(complete);
    find_loaded(table, like.get_device_index());
    const TableKey key = key_of(table, like.get_device_index());
    const std::shared_ptr<void> kept = kept_memory(key, kept_size(op), stream.handle());
    table.kept = kept.get();
    run_on(complete, like, stream);
  } else {
    run_on(op, like, stream);
  }
}

}  // namespace equigeo
