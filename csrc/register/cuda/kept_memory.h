// Device memory with what later calls with a path table need too: the plans of the tables that were
// used last.
#pragma once

#include <array>
#include <memory>
#include <type_traits>

#include "args/path_table.h"

namespace equigeo {

// A device, where a table is and its sizes. Kernels see whether its numbers are still the same:
// tensors are written to, and their memory is used again.
using TableKey = std::array<int64_t, 11>;

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
      sizeof(T)};
}

// The memory of one table during a call: zeros where no call has been before. Null for no bytes,
// where there is no memory, and in a call that a graph captures before any other.
class KeptMemory {
 public:
  KeptMemory(const TableKey& key, int64_t bytes, void* stream);

  void* get() const { return memory_.get(); }

  // Keep it: all work of the call has been queued.
  void keep();

 private:
  TableKey key_;
  int64_t bytes_;
  void* stream_;
  std::shared_ptr<void> memory_;
  bool is_new_ = false;
};

template <class Op, class = void>
constexpr bool kHasTable = false;
template <class Op>
constexpr bool kHasTable<Op, std::void_t<decltype(Op::table.kept)>> = true;

}  // namespace equigeo
