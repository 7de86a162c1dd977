#include "simulator/async_copies.h"

#include <cstdint>
#include <cstring>
#include <utility>

#include "simulator/observer.h"
#include "simulator/shared_memory.h"

namespace equigeo::simulator {

void AsyncCopies::ask(void* to, const void* from, size_t bytes, const SourceLocation& place) {
  if (bytes != 4 && bytes != 8 && bytes != 16) {
    refuse(place, ": an asynchronous copy is of 4, 8 or 16 bytes, not of ", bytes);
  }
  if (reinterpret_cast<uintptr_t>(to) % bytes != 0 ||
      reinterpret_cast<uintptr_t>(from) % bytes != 0) {
    refuse(place, ": an asynchronous copy of ", bytes, " bytes is not aligned to them");
  }
  if (!shared_memory().contains(to) || shared_memory().contains(from)) {
    refuse(place, ": an asynchronous copy leads from global to shared memory");
  }
  observer().accessed(
      to, static_cast<unsigned>(bytes), Access::kWrite, __builtin_return_address(0));
  std::memset(to, kPoison, bytes);
  open_.push_back({to, from, bytes});
}

void AsyncCopies::commit() { committed_.push_back(std::exchange(open_, {})); }

void AsyncCopies::make(const Batch& batch) {
  for (const Copy& copy : batch) {
    const unsigned bytes = static_cast<unsigned>(copy.bytes);
    observer().accessed(copy.from, bytes, Access::kRead, __builtin_return_address(0));
    observer().accessed(copy.to, bytes, Access::kWrite, __builtin_return_address(0));
    std::memcpy(copy.to, copy.from, copy.bytes);
  }
}

void AsyncCopies::wait(size_t left) {
  while (committed_.size() > left) {
    make(committed_.front());
    committed_.pop_front();
  }
}

void AsyncCopies::clear() {
  open_.clear();
  committed_.clear();
}

}  // namespace equigeo::simulator
