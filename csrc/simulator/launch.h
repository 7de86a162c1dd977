// Running a grid of blocks, one after another, as a card would be asked to.
#pragma once

#include <cstddef>
#include <cstdint>

#include "simulator/block.h"
#include "simulator/vector_types.h"

namespace equigeo::simulator {

// What stands between <<< and >>>, and the size of the arguments behind it.
struct Shape {
  dim3 grid, block;
  int64_t shared_bytes = 0;
  size_t argument_bytes = 0;
};

// Run all blocks of a kernel, here and now. An Error names the problem; the rest of the grid does
// not run then. Calls from several host threads wait for one another: there is one card.
void run_grid(const Shape& shape, const void* kernel, const Body& body);

// What cudaFuncSetAttribute allows a kernel; false where the device has less.
bool allow_dynamic_shared(const void* kernel, int64_t bytes);

}  // namespace equigeo::simulator
