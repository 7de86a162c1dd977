#include "simulator/kernel_calls.h"

#include "simulator/block.h"
#include "simulator/device.h"

namespace equigeo::simulator {

unsigned lane() { return Block::current().thread().index % Device::kWarp; }

namespace {

void check_mask(uint32_t mask, const SourceLocation& place) {
  if (!(mask >> lane() & 1)) {
    refuse(place, ": lane ", lane(), " is not among the lanes that it names");
  }
}

}  // namespace

void sync_warp(uint32_t mask, const SourceLocation& place) {
  check_mask(mask, place);
  Block::current().wait(Barrier::kWarp, mask, place);
}

void sync_block(const SourceLocation& place) { Block::current().wait(Barrier::kBlock, 0, place); }

void shuffle(
    void* value, unsigned bytes, unsigned source, uint32_t mask, const SourceLocation& place) {
  check_mask(mask, place);
  Block& block = Block::current();
  Thread& thread = block.thread();
  std::memcpy(thread.given, value, bytes);
  thread.source = source;
  block.wait(Barrier::kShuffle, mask, place);
  std::memcpy(value, thread.received, bytes);
}

void ask_for_copy(void* to, const void* from, size_t bytes, const SourceLocation& place) {
  Block::current().thread().copies.ask(to, from, bytes, place);
}

void commit_copies() { Block::current().thread().copies.commit(); }

void wait_for_copies(size_t left) { Block::current().thread().copies.wait(left); }

void trap(const SourceLocation& place) { refuse(place, ": __trap"); }

void observe_atomic(const void* address, unsigned bytes) {
  tell_access(address, bytes, Access::kAtomic, __builtin_return_address(0));
}

void copy_vector(void* to, const void* from, unsigned size) {
  for (const void* address : {static_cast<const void*>(to), from}) {
    if (reinterpret_cast<uintptr_t>(address) % size != 0) {
      refuse("a vector of ", size, " bytes is read or written at an address that is no multiple");
    }
  }
  tell_access(from, size, Access::kRead, __builtin_return_address(0));
  tell_access(to, size, Access::kWrite, __builtin_return_address(0));
  std::memcpy(to, from, size);
}

}  // namespace equigeo::simulator
