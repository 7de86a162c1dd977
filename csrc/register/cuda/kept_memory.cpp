#include "register/cuda/kept_memory.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "kernels/cuda/plan.h"

namespace equigeo {
namespace {

std::atomic<int64_t> plans_made{0};

// The memory of all tables, that of the last call first. What a graph has captured stays for good:
// the graph may be launched at any time.
class KeptTables {
 public:
  std::shared_ptr<void> find(const TableKey& key, bool captured) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = std::find_if(
        tables_.begin(), tables_.end(), [&](const Table& table) { return table.key == key; });
    if (found == tables_.end()) {
      return nullptr;
    }
    found->captured |= captured;
    std::rotate(tables_.begin(), found, found + 1);
    return tables_.front().memory;
  }

  // Another thread may have added the same key, whose memory is then found no more.
  void add(const TableKey& key, int64_t bytes, const std::shared_ptr<void>& memory) {
    std::vector<Table> forgotten;  // given back when the lock is, which waits for the device
    const std::lock_guard<std::mutex> lock(mutex_);
    tables_.insert(tables_.begin(), {key, bytes, memory, false});
    bytes_ += bytes;
    for (size_t n = tables_.size(); n-- > 1 && (tables_.size() > kMostTables || bytes_ > kMost);) {
      if (!tables_[n].captured) {
        bytes_ -= tables_[n].bytes;
        forgotten.push_back(tables_[n]);
        tables_.erase(tables_.begin() + n);
      }
    }
  }

 private:
  struct Table {
    TableKey key;
    int64_t bytes;
    std::shared_ptr<void> memory;
    bool captured;
  };

  // More tables than models have; a table of a model takes some tens of kilobytes.
  static constexpr size_t kMostTables = 128;
  static constexpr int64_t kMost = 64 << 20;

  std::mutex mutex_;
  std::vector<Table> tables_;
  int64_t bytes_ = 0;
};

// Never destroyed: CUDA may be gone before.
KeptTables& kept_tables() {
  static KeptTables& all = *new KeptTables;
  return all;
}

}  // namespace

KeptMemory::KeptMemory(const TableKey& key, int64_t bytes, void* stream)
    : key_(key), bytes_(bytes), stream_(stream) {
  if (bytes == 0) {
    return;
  }
  memory_ = kept_tables().find(key, captures_graph(stream));
  if (memory_ == nullptr) {
    memory_.reset(take_kept_memory(bytes, stream), [](void* memory) {
      if (memory != nullptr) {
        give_kept_memory_back(memory);
      }
    });
    is_new_ = memory_ != nullptr;
    plans_made += is_new_;
  }
}

void KeptMemory::keep() {
  if (is_new_) {
    wait_for_stream(stream_);  // calls on other streams will read it
    kept_tables().add(key_, bytes_, memory_);
  }
}

}  // namespace equigeo

// For tests: how often memory was not found.
extern "C" __attribute__((visibility("default"))) int64_t equigeo_plans_made() {
  return equigeo::plans_made;
}
