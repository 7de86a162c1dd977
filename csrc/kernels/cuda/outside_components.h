// Rows with components inside, brought into the layout with components outside.
//
// A convolution reads every row once per edge. Moved once, lanes read neighbours each time.
#pragma once

#include "args/storage.h"
#include "kernels/cuda/plan.h"

namespace equigeo {

// Room for rows with components outside; null where they come so.
template <class S>
S* cut_rows(const PathTable<Compute<S>>& table, int64_t rows, int64_t dim, Carver& memory) {
  return table.ir_mul ? nullptr : memory.take<S>(rows * dim);
}

// Rows of the output, or of the first input; what lies in no segment is not copied. Null, or what
// went wrong.
template <class S>
const char* move_components_outside(
    const Plan<Compute<S>>& plan, Side side, const S* from, int64_t rows, S* to, void* stream);

}  // namespace equigeo
