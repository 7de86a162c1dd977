// Memory of large results, used again.
#pragma once

#include "register/tensors.h"

namespace equigeo {

// What an op gives back, not yet written. A fresh result of many megabytes costs more to map, page
// by page, than to compute, because the C library returns such memory to the system as soon as the
// tensor is gone. So it is kept here, up to a limit, and on large pages.
//
// `stream`: whether the result should be written past the caches: it is larger than they are,
// and they do not hold what the system has just cleared.
Tensor new_result(const Tensor& like, Sizes sizes, bool* stream = nullptr);

}  // namespace equigeo
