// A stack of its own on which a simulated thread can wait.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "simulator/context.h"

namespace equigeo::simulator {

class Fiber {
 public:
  using Entry = void (*)();

  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Forget what was left on the stack; the next resume calls `entry`, which must not return.
  void begin(Entry entry);

  // Run until it suspends itself.
  void resume();

  // Go back to who resumed the fiber that runs now.
  static void suspend();

  bool contains(const void* address) const;

 private:
  static void first();

  char* stack_;
  Entry entry_ = nullptr;
  Context own_, callers_;
  // What the address sanitizer wants to know of the two stacks.
  void* own_fake_ = nullptr;
  const void* callers_bottom_ = nullptr;
  size_t callers_size_ = 0;
};

// Fibers to borrow. The one given back last is lent first, so that threads that never wait all run
// on one.
class FiberPool {
 public:
  explicit FiberPool(Fiber::Entry entry) : entry_(entry) {}

  Fiber& borrow();
  void give_back(Fiber& fiber) { idle_.push_back(&fiber); }
  void take_all_back();  // whatever they were doing

 private:
  Fiber::Entry entry_;
  std::deque<Fiber> all_;
  std::vector<Fiber*> idle_;
};

}  // namespace equigeo::simulator
