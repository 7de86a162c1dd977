// Passes over rows, some at a time.
#pragma once

#include "kernels/cpu/isa.h"

namespace equigeo {
namespace {

// Rows that are computed together, and how many of the chunk come later.
struct Block {
  int64_t begin, rows, beyond;
};

// Call pass.run with blocks of `size` rows, the last with what is left of [begin, end).
template <class Pass, class Op>
int run_blocks(const Op& op, int64_t begin, int64_t end, int64_t size) {
  Pass pass(op);
  if (pass.failed()) {
    return kOutOfMemory;
  }
  for (; begin < end; begin += size) {
    const int64_t rows = begin + size < end ? size : end - begin;
    pass.run({begin, rows, end - begin - rows});
  }
  return 0;
}

}  // namespace
}  // namespace equigeo
