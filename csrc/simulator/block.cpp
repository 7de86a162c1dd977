#include "simulator/block.h"

#include <algorithm>
#include <utility>

#include "simulator/device.h"

namespace equigeo::simulator {

Coordinates coordinates{};
Block* Block::running_ = nullptr;

namespace {

const char* name_of(Barrier barrier) {
  switch (barrier) {
    case Barrier::kWarp:
      return "__syncwarp";
    case Barrier::kShuffle:
      return "a shuffle";
    default:
      return "__syncthreads";
  }
}

}  // namespace

Block::Block(dim3 threads) : extent_(threads), threads_(threads.count()) {
  const unsigned count = static_cast<unsigned>(threads_.size());
  for (unsigned n = 0; n < count; ++n) {
    threads_[n].index = n;
    threads_[n].place_in_block = {
        n % extent_.x, n / extent_.x % extent_.y, n / extent_.x / extent_.y};
  }
  for (unsigned n = 0; n < count; n += Device::kWarp) {
    warps_.emplace_back(n / Device::kWarp, &threads_[n], std::min(Device::kWarp, count - n));
  }
}

Block& Block::current() {
  if (!is_running()) {
    refuse("what only kernels can do was called outside of a kernel");
  }
  return *running_;
}

// What a fiber does, over and over: the thread that has begun on it.
void Block::run_thread() {
  for (;;) {
    Block& block = *running_;
    Thread& thread = *block.thread_;
    try {
      block.body_.run(block.body_.closure);
    } catch (...) {
      block.failure_ = std::current_exception();
    }
    thread.done = true;
    Fiber::suspend();
  }
}

FiberPool& Block::fibers() {
  static FiberPool pool(&Block::run_thread);
  return pool;
}

void Block::begin() {
  for (Thread& thread : threads_) {
    thread.done = false;
    thread.barrier = Barrier::kNone;
    thread.fiber = nullptr;
    thread.copies.clear();
  }
}

void Block::go_on(Thread& thread) {
  if (thread.fiber == nullptr) {
    thread.fiber = &fibers().borrow();
  }
  thread_ = &thread;
  coordinates.thread = thread.place_in_block;
  thread.fiber->resume();
  thread_ = nullptr;
  if (failure_) {
    std::rethrow_exception(std::exchange(failure_, nullptr));
  }
  if (thread.done) {
    fibers().give_back(*thread.fiber);
  }
}

void Block::fail(const std::string& message) {
  failure_ = failure_ ? failure_ : std::make_exception_ptr(Error(message));
}

void Block::wait(Barrier barrier, uint32_t mask, const SourceLocation& place) {
  Thread& thread = *thread_;
  thread.barrier = barrier;
  thread.mask = mask;
  thread.place = place;
  Fiber::suspend();
}

// Every lane that can goes on until it waits or returns.
void Block::take_turns(Warp& warp, Order& order) {
  order.arrange(warp.lanes(), lane_order_);
  for (const unsigned lane : lane_order_) {
    if (warp[lane].ready()) {
      go_on(warp[lane]);
    }
  }
  warp.release();
}

// In a fixed order a warp goes as far as it can before the next one begins; in a random one any
// warp may be ahead of any other.
bool Block::run_some(Order& order) {
  bool any = false;
  order.arrange(static_cast<unsigned>(warps_.size()), warp_order_);
  for (const unsigned w : warp_order_) {
    Warp& warp = warps_[w];
    for (bool again = warp.ready(); again; again = warp.ready() && !order.random()) {
      take_turns(warp, order);
      any = true;
    }
  }
  return any;
}

bool Block::release_block() {
  const Thread* first = nullptr;
  for (const Thread& thread : threads_) {
    if (thread.done) {
      continue;
    }
    first = first == nullptr ? &thread : first;
    if (thread.barrier != Barrier::kBlock || !(thread.place == first->place)) {
      return false;
    }
  }
  if (first == nullptr) {
    return false;
  }
  observer().block_met(first->place);
  for (Thread& thread : threads_) {
    thread.barrier = Barrier::kNone;
  }
  return true;
}

void Block::run(const Body& body, Order& order) {
  body_ = body;
  running_ = this;
  begin();
  try {
    while (run_some(order) || release_block()) {
    }
    if (!std::all_of(warps_.begin(), warps_.end(), [](const Warp& w) { return w.done(); })) {
      refuse_deadlock();
    }
  } catch (...) {
    fibers().take_all_back();
    running_ = nullptr;
    throw;
  }
  running_ = nullptr;
}

// The first thread that waits, or the first one that waits in another place or for other lanes.
const Thread* Block::waiting(const SourceLocation* elsewhere) const {
  for (const Thread& thread : threads_) {
    if (!thread.done && (elsewhere == nullptr || !(thread.place == *elsewhere))) {
      return &thread;
    }
  }
  return nullptr;
}

void tell_access(const void* address, unsigned bytes, Access access, const void* code) {
  const char* byte = static_cast<const char*>(address);
  const char* own = reinterpret_cast<const char*>(&coordinates);
  const bool is_coordinate = own <= byte && byte < own + sizeof(coordinates);
  if (Block::is_running() && !is_coordinate &&
      !Block::current().thread().fiber->contains(address)) {
    observer().accessed(address, bytes, access, code);
  }
}

void Block::refuse_deadlock() const {
  const Thread& first = *waiting(nullptr);
  const Thread* other = waiting(&first.place);
  if (other == nullptr) {
    refuse(
        first.place, ": ", name_of(first.barrier), " is reached by thread ", first.index,
        ", but not with the same lanes by all that it names");
  }
  refuse(
      first.place, ": ", name_of(first.barrier), " is reached by thread ", first.index,
      " of block ", coordinates.block.x, ", but not by thread ", other->index, ", which waits at ",
      other->place, " (", name_of(other->barrier), ")");
}

}  // namespace equigeo::simulator
