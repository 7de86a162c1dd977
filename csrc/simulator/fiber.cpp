#include "simulator/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include "simulator/error.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace equigeo::simulator {
namespace {

constexpr size_t kStack = 256 << 10;  // only pages that are touched take memory

Fiber* running = nullptr;

// The address sanitizer follows from stack to stack if it is notified before and behind each
// switch.
void before_switch(void** fake, const void* bottom, size_t size) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(fake, bottom, size);
#else
  static_cast<void>(fake), static_cast<void>(bottom), static_cast<void>(size);
#endif
}

void behind_switch(void* fake, const void** bottom, size_t* size) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(fake, bottom, size);
#else
  static_cast<void>(fake), static_cast<void>(bottom), static_cast<void>(size);
#endif
}

}  // namespace

// A page below the stack that nobody may touch stops what overflows it.
Fiber::Fiber() {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* memory = mmap(
      nullptr, kStack + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
      -1, 0);
  if (memory == MAP_FAILED) {
    refuse("no memory for the stack of a simulated thread");
  }
  mprotect(memory, page, PROT_NONE);
  stack_ = static_cast<char*>(memory) + page;
}

Fiber::~Fiber() {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  munmap(stack_ - page, kStack + page);
}

void Fiber::begin(Entry entry) {
#ifdef __SANITIZE_ADDRESS__
  __asan_unpoison_memory_region(stack_, kStack);  // frames that were left for good
#endif
  entry_ = entry;
  own_fake_ = nullptr;
  prepare(own_, stack_, kStack, &Fiber::first);
}

void Fiber::first() {
  Fiber& self = *running;
  behind_switch(nullptr, &self.callers_bottom_, &self.callers_size_);
  self.entry_();
}

void Fiber::resume() {
  running = this;
  void* callers_fake = nullptr;
  before_switch(&callers_fake, stack_, kStack);
  switch_context(callers_, own_);
  behind_switch(callers_fake, nullptr, nullptr);
}

void Fiber::suspend() {
  Fiber& self = *running;
  before_switch(&self.own_fake_, self.callers_bottom_, self.callers_size_);
  switch_context(self.own_, self.callers_);
  behind_switch(self.own_fake_, &self.callers_bottom_, &self.callers_size_);
}

bool Fiber::contains(const void* address) const {
  return stack_ <= address && address < stack_ + kStack;
}

Fiber& FiberPool::borrow() {
  if (idle_.empty()) {
    all_.emplace_back().begin(entry_);
    return all_.back();
  }
  Fiber& fiber = *idle_.back();
  idle_.pop_back();
  return fiber;
}

void FiberPool::take_all_back() {
  idle_.clear();
  for (Fiber& fiber : all_) {
    fiber.begin(entry_);
    idle_.push_back(&fiber);
  }
}

}  // namespace equigeo::simulator
