// Observers of threads.
#pragma once

#include <cstdint>

#include "simulator/error.h"

namespace equigeo::simulator {

enum class Access : uint8_t { kRead, kWrite, kAtomic };

// Gets everything that decides about races and costs. The base ignores it.
class Observer {
 public:
  virtual ~Observer() = default;

  virtual void grid_begins(const void*) {}          // the kernel
  virtual void block_begins(unsigned, unsigned) {}  // its number, and how many threads it has
  virtual void warp_met(unsigned, uint32_t, const SourceLocation&) {
  }  // its number, and which lanes
  virtual void block_met(const SourceLocation&) {}
  // By the running thread; `code` is an address in the program, for reports.
  virtual void accessed(const void*, unsigned, Access, const void*) {}
  virtual void grid_ends() {}
};

// The present observer, never null.
Observer& observer();
void observe_with(Observer* observer);

}  // namespace equigeo::simulator
