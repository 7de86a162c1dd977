// Large results on large pages.
#pragma once

#include <stdint.h>

#include "ops/tensors.h"
#ifdef __linux__
#include <sys/mman.h>
#endif

namespace equigeo {

// A fresh result of many megabytes costs more to map, page by page, than to compute. Ask for large
// pages; where there are none nothing changes.
inline Tensor new_result(const Tensor& like, std::initializer_list<int64_t> sizes) {
  Tensor tensor = torch::stable::new_empty(like, sizes);
  const int64_t bytes = tensor.numel() * static_cast<int64_t>(tensor.element_size());
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  constexpr int64_t kPage = 1 << 12, kWorth = 1 << 22;
  if (bytes >= kWorth) {
    const uintptr_t begin = reinterpret_cast<uintptr_t>(tensor.mutable_data_ptr());
    const uintptr_t first = (begin + kPage - 1) / kPage * kPage;
    madvise(reinterpret_cast<void*>(first), begin + bytes - first, MADV_HUGEPAGE);
  }
#else
  (void)bytes;
#endif
  return tensor;
}

}  // namespace equigeo
