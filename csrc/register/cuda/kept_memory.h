// Device memory with what later calls with a path table, or with blocks of a linear map, need too:
// the plans of the tables that were used last.
#pragma once

#include <array>
#include <memory>
#include <type_traits>
#include <utility>

#include "args/block_linear.h"
#include "args/path_table.h"

namespace equigeo {

// A device, where a table is and its sizes. Kernels see whether its numbers are still the same:
// tensors are written to, and their memory is used again.
using TableKey = std::array<int64_t, 12>;

template <class T>
TableKey key_of(const PathTable<T>& table, int64_t device) {
  return {
      device,
      reinterpret_cast<intptr_t>(table.path),
      reinterpret_cast<intptr_t>(table.entry),
      table.count,
      table.coefficients,
      table.dim_x,
      table.dim_y,
      table.dim_weight,
      table.dim_out,
      table.ir_mul,
      sizeof(T),
      reinterpret_cast<intptr_t>(table.loaded)};
}

template <class T>
TableKey key_of(const LinearBlocks<T>& blocks, int64_t device) {
  constexpr int64_t kNoEntries = -1;
  return {device,         reinterpret_cast<intptr_t>(blocks.block),
          kNoEntries,     blocks.count,
          blocks.dim_in,  blocks.dim_weight,
          blocks.dim_out, blocks.ir_mul,
          sizeof(T)};
}

// The memory of a table for a call on a stream: zeros at first. Calls that CUDA may run at the same
// time never share it, since a call that finds another table makes the plan again. Each stream has
// its own, and each graph that a stream captures. Null for no bytes, or without memory.
std::shared_ptr<void> kept_memory(const TableKey& key, int64_t bytes, void* stream);

// The table of an op.
template <class Op>
auto table_of(Op& op) -> decltype(op.table.kept, (op.table)) {
  return op.table;
}
template <class Op>
auto table_of(Op& op) -> decltype(op.blocks.kept, (op.blocks)) {
  return op.blocks;
}

template <class Op, class = void>
constexpr bool kHasTable = false;
template <class Op>
constexpr bool kHasTable<Op, std::void_t<decltype(table_of(std::declval<Op&>()))>> = true;

}  // namespace equigeo
