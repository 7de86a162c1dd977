// What the host calls of these kernels; the file of an op's kernels defines it for that op.
#pragma once

#include <stdint.h>

namespace equigeo {

// Bytes of scratch memory that an op needs on the device.
template <class Op>
int64_t scratch_size(const Op& op);

// Bytes that an op keeps on the device for later calls with the same path table.
template <class Op>
int64_t kept_size(const Op& op);

// Queue an op on a stream; null, or the name of CUDA's error.
template <class Op>
const char* launch(const Op& op, void* scratch, void* stream);

namespace {

// Of ops that need none; the file of another op has overloads.
template <class Op>
int64_t size_of(const Op&) {
  return 0;
}
template <class Op>
int64_t size_to_keep(const Op&) {
  return 0;
}

}  // namespace
}  // namespace equigeo

// Defines them for an op of a type, by size_of, size_to_keep and run of the file.
#define EQUIGEO_DEFINE_LAUNCH(Op)                                 \
  template <>                                                     \
  int64_t scratch_size(const Op& op) {                            \
    return size_of(op);                                           \
  }                                                               \
  template <>                                                     \
  int64_t kept_size(const Op& op) {                               \
    return size_to_keep(op);                                      \
  }                                                               \
  template <>                                                     \
  const char* launch(const Op& op, void* scratch, void* stream) { \
    return run(op, scratch, stream);                              \
  }
#define EQUIGEO_DEFINE_LAUNCHES(Op) \
  EQUIGEO_DEFINE_LAUNCH(Op<float>)  \
  EQUIGEO_DEFINE_LAUNCH(Op<double>)
