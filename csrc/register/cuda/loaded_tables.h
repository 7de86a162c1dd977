// Path tables whose kernels were compiled at run time, for as long as the process lives.
#pragma once

#include "args/block_linear.h"
#include "args/path_table.h"

namespace equigeo {

// The kernels for tables of these sizes on a device, or null. They never become others: a plan that
// is kept on a device was made for these.
template <class T>
const LoadedKernels* loaded_kernels(const PathTable<T>& table, int64_t device);

// Sets `loaded` of a table before anything asks for the memory of its op.
template <class T>
void find_loaded(PathTable<T>& table, int64_t device) {
  table.loaded = loaded_kernels(table, device);
}
template <class T>
void find_loaded(LinearBlocks<T>&, int64_t) {}

}  // namespace equigeo
