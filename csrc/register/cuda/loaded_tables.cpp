#include "register/cuda/loaded_tables.h"

#include <atomic>
#include <cstring>
#include <mutex>

#include "kernels/cuda/loaded_kernels.h"
#include "kernels/cuda/numbered_table.h"

namespace equigeo {
namespace {

constexpr int kMostTables = 256, kMostDevices = 256;

struct LoadedTable {
  LoadedKernels kernels;
  std::atomic<bool> trusted[kMostDevices];  // where they have passed their test
};

LoadedTable entries[kMostTables];
std::atomic<int> entries_made{0};
std::mutex mutex;

// The entry whose kernels this thread tests, or -1.
thread_local int tested = -1;

int refuse(const char* reason, char* message, int size) {
  std::strncpy(message, reason, static_cast<size_t>(size) - 1);
  return -1;
}

}  // namespace

template <class T>
const LoadedKernels* loaded_kernels(const PathTable<T>& table, int64_t device) {
  const int count = entries_made.load(std::memory_order_acquire);
  for (int n = 0; n < count; ++n) {
    const LoadedTable& entry = entries[n];
    if (entry.kernels.table.has_sizes_of(table) &&
        (n == tested || entry.trusted[static_cast<unsigned char>(device)].load())) {
      return &entry.kernels;
    }
  }
  return nullptr;
}

template const LoadedKernels* loaded_kernels(const PathTable<float>&, int64_t);
template const LoadedKernels* loaded_kernels(const PathTable<double>&, int64_t);

}  // namespace equigeo

// What Python calls, see equigeo/ops/run_time_kernels.py.
#define EQUIGEO_EXPORT extern "C" __attribute__((visibility("default")))

// Whether there are kernels compiled ahead for a table, 2, or for another one of its sizes, 1: the
// number of paths and the lengths of x, y, weights and output.
EQUIGEO_EXPORT int equigeo_knows_table(const int* numbers, const int64_t* sizes) {
  using namespace equigeo;
  PathTable<float> table{};
  table.count = sizes[0];
  table.dim_x = sizes[1];
  table.dim_y = sizes[2];
  table.dim_weight = sizes[3];
  table.dim_out = sizes[4];
  const KnownTable* known = known_table(table);
  return known == nullptr ? 0 : same_paths(*known, numbered_table(numbers)) ? 2 : 1;
}

// Loads the kernels of a table on the current device; returns the number of the entry. Else returns
// -1 and has written why, with a zero at the end, into a message of zeros. They were compiled, so
// that the numbers make a table.
EQUIGEO_EXPORT int equigeo_load_kernels(
    const int* numbers, const void* cubin, const char* const* symbols, char* message, int size) {
  using namespace equigeo;
  const std::lock_guard<std::mutex> lock(mutex);
  const int n = entries_made.load();
  if (n == kMostTables) {
    return refuse("there are too many tables", message, size);
  }
  LoadedKernels kernels{numbered_table(numbers), {}};
  if (const char* error = load_kernels(cubin, symbols, kernels.kernel)) {
    return refuse(error, message, size);
  }
  entries[n].kernels = kernels;
  entries_made.store(n + 1, std::memory_order_release);
  return n;
}

// Lets calls of this thread use kernels that no device is trusted with; -1 ends that.
EQUIGEO_EXPORT void equigeo_test_kernels(int entry) { equigeo::tested = entry; }

EQUIGEO_EXPORT void equigeo_trust_kernels(int entry, int device) {
  equigeo::entries[entry].trusted[static_cast<unsigned char>(device)].store(true);
}
