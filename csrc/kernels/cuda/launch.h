// What the host calls of these kernels; the file of an op's kernels defines it for that op.
#pragma once

#include <stdint.h>

namespace equigeo {

// Queue an op on a stream; null, or the name of CUDA's error.
template <class Op>
const char* launch(const Op& op, void* stream);

// Bytes of scratch memory that an op needs on the device.
template <class Op>
int64_t scratch_size(const Op& op);

// The same for ops that need some.
template <class Op>
const char* launch(const Op& op, void* scratch, void* stream);

}  // namespace equigeo

// Defines both for an op with every type that is stored, by size_of and run of the file.
#define EQUIGEO_DEFINE_LAUNCHES(Op) \
  EQUIGEO_DEFINE_LAUNCH(Op<float>)  \
  EQUIGEO_DEFINE_LAUNCH(Op<double>) \
  EQUIGEO_DEFINE_LAUNCH(Op<Bf16>)

#define EQUIGEO_DEFINE_LAUNCH(Op)                                 \
  template <>                                                     \
  int64_t scratch_size(const Op& op) {                            \
    return size_of(op);                                           \
  }                                                               \
  template <>                                                     \
  const char* launch(const Op& op, void* scratch, void* stream) { \
    return run(op, scratch, stream);                              \
  }
