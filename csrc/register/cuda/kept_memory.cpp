#include "register/cuda/kept_memory.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "kernels/cuda/plan.h"

namespace equigeo {
namespace {

std::atomic<int64_t> plans_made{0};

std::shared_ptr<void> new_memory(int64_t bytes) {
  void* const memory = take_kept_memory(bytes);
  if (memory == nullptr) {
    return nullptr;
  }
  ++plans_made;
  return {memory, give_kept_memory_back};
}

// A table, and the stream and graph of its calls.
using QueuedKey = std::pair<TableKey, std::array<int64_t, 2>>;

// The memory of tables, that of the last call first.
class KeptTables {
 public:
  // For graphs memory stays for good, since they may be launched at any time: what is full takes no
  // more tables instead of forgetting others.
  explicit KeptTables(bool for_graphs) : for_graphs_(for_graphs) {}

  std::shared_ptr<void> find_or_add(const QueuedKey& key, int64_t bytes) {
    std::vector<Table> forgotten;  // given back when the lock is, which waits for the device
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = std::find_if(
        tables_.begin(), tables_.end(), [&](const Table& table) { return table.key == key; });
    if (found != tables_.end()) {
      std::rotate(tables_.begin(), found, found + 1);
      return tables_.front().memory;
    }
    if (for_graphs_ && bytes_ + bytes > kMost) {
      return nullptr;
    }
    const std::shared_ptr<void> memory = new_memory(bytes);
    if (memory != nullptr) {
      tables_.insert(tables_.begin(), {key, bytes, memory});
      bytes_ += bytes;
    }
    while (!for_graphs_ && tables_.size() > 1 && (tables_.size() > kMostTables || bytes_ > kMost)) {
      bytes_ -= tables_.back().bytes;
      forgotten.push_back(tables_.back());
      tables_.pop_back();
    }
    return memory;
  }

 private:
  struct Table {
    QueuedKey key;
    int64_t bytes;
    std::shared_ptr<void> memory;
  };

  // More tables than models have; a table of a model takes some tens of kilobytes.
  static constexpr size_t kMostTables = 128;
  static constexpr int64_t kMost = 64 << 20;

  const bool for_graphs_;
  std::mutex mutex_;
  std::vector<Table> tables_;
  int64_t bytes_ = 0;
};

}  // namespace

std::shared_ptr<void> kept_memory(const TableKey& key, int64_t bytes, void* stream) {
  // Never destroyed: CUDA may be gone before.
  static KeptTables& of_calls = *new KeptTables(false);
  static KeptTables& of_graphs = *new KeptTables(true);
  Queue queue{};
  if (bytes == 0 || !find_queue(stream, queue)) {
    return nullptr;
  }
  KeptTables& tables = queue.captures ? of_graphs : of_calls;
  return tables.find_or_add({key, {queue.stream, queue.graph}}, bytes);
}

}  // namespace equigeo

// For tests: how often memory was new.
extern "C" __attribute__((visibility("default"))) int64_t equigeo_plans_made() {
  return equigeo::plans_made;
}
