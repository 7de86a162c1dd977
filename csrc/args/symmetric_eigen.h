// Arguments of the op, for any device: contiguous arrays whose sizes have been checked.
#pragma once

#include <stdint.h>

namespace equigeo {

template <class T>
struct SymmetricEigen {
  int64_t count;
  int64_t size;     // 2 or 3
  const T* matrix;  // (count, size, size)
  T* values;        // (count, size)
  T* vectors;       // (count, size, size)
};

}  // namespace equigeo
