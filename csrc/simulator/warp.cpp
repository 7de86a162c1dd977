#include "simulator/warp.h"

#include <cstring>

#include "simulator/observer.h"

namespace equigeo::simulator {

uint32_t Warp::live() const {
  uint32_t mask = 0;
  for (unsigned lane = 0; lane < lanes_; ++lane) {
    mask |= uint32_t{!first_[lane].done} << lane;
  }
  return mask;
}

bool Warp::ready() const {
  for (unsigned lane = 0; lane < lanes_; ++lane) {
    if (first_[lane].ready()) {
      return true;
    }
  }
  return false;
}

bool Warp::done() const { return live() == 0; }

// Whether all of a group wait where one of them does, for the same lanes.
bool Warp::has_gathered(uint32_t group, const Thread& waiting) const {
  for (unsigned lane = 0; lane < lanes_; ++lane) {
    const Thread& thread = first_[lane];
    if (holds(group, lane) && (thread.barrier != waiting.barrier || thread.mask != waiting.mask ||
                               !(thread.place == waiting.place))) {
      return false;
    }
  }
  return true;
}

void Warp::exchange(uint32_t group) const {
  for (unsigned lane = 0; lane < lanes_; ++lane) {
    Thread& thread = first_[lane];
    if (!holds(group, lane)) {
      continue;
    }
    if (!holds(group, thread.source)) {
      refuse(
          thread.place, ": lane ", lane, " of warp ", number_, " reads the value of lane ",
          thread.source, ", which takes no part in the shuffle");
    }
    std::memcpy(thread.received, first_[thread.source].given, Thread::kMostBytes);
  }
}

bool Warp::release() {
  const uint32_t alive = live();
  bool any = false;
  for (unsigned lane = 0; lane < lanes_; ++lane) {
    const Thread& thread = first_[lane];
    if (thread.barrier != Barrier::kWarp && thread.barrier != Barrier::kShuffle) {
      continue;
    }
    const uint32_t group = thread.mask & alive;
    if (!has_gathered(group, thread)) {
      continue;
    }
    if (thread.barrier == Barrier::kShuffle) {
      exchange(group);  // which orders no access to memory
    } else {
      observer().warp_met(number_, group, thread.place);
    }
    for (unsigned other = 0; other < lanes_; ++other) {
      if (holds(group, other)) {
        first_[other].barrier = Barrier::kNone;
      }
    }
    any = true;
  }
  return any;
}

}  // namespace equigeo::simulator
