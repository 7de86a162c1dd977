// The block that runs: its threads take turns until all have finished.
//
// One thread runs at a time, until it waits or returns. A thread that never waits borrows a fiber
// that the one before it has left, so that a kernel without barriers costs no more than a loop.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "simulator/observer.h"
#include "simulator/order.h"
#include "simulator/thread.h"
#include "simulator/vector_types.h"
#include "simulator/warp.h"

namespace equigeo::simulator {

// What a kernel reads of its own place.
struct Coordinates {
  uint3 thread, block;
  dim3 threads, blocks;
};

extern Coordinates coordinates;

// Code that every thread runs.
struct Body {
  void (*run)(void*);
  void* closure;
};

class Block {
 public:
  explicit Block(dim3 threads);

  // Run all threads from their beginning; throws what one of them throws, and an Error where some
  // wait for what will never happen.
  void run(const Body& body, Order& order);

  // The block of the kernel that runs, and the thread in it; none outside of kernels.
  static Block& current();
  static bool is_running() { return running_ != nullptr && running_->thread_ != nullptr; }
  Thread& thread() { return *thread_; }

  // For code that cannot throw: let the block fail when the running thread waits or returns.
  void fail(const std::string& message);

  // For the running thread: wait there.
  void wait(Barrier barrier, uint32_t mask, const SourceLocation& place);

 private:
  static void run_thread();
  static FiberPool& fibers();
  void begin();
  void go_on(Thread& thread);
  void take_turns(Warp& warp, Order& order);
  bool release_block();
  bool run_some(Order& order);
  [[noreturn]] void refuse_deadlock() const;
  const Thread* waiting(const SourceLocation* elsewhere) const;

  static Block* running_;

  dim3 extent_;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<unsigned> warp_order_, lane_order_;
  Body body_{};
  Thread* thread_ = nullptr;
  std::exception_ptr failure_;
};

// Report an access by the running thread to the observer, except to its stack and its coordinates.
// Outside of kernels nothing is reported.
void tell_access(const void* address, unsigned bytes, Access access, const void* code);

}  // namespace equigeo::simulator
