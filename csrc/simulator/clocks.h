// What the threads of a block know of one another's past.
//
// A barrier of a warp shares the knowledge of its lanes among them; a barrier of the block shares
// that of all threads. Shuffles share nothing: CUDA promises no order of memory behind them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "simulator/device.h"

namespace equigeo::simulator {

// A moment in the life of a thread.
struct Moment {
  unsigned thread;
  uint32_t epoch;  // barriers of the block before
  uint32_t time;   // barriers of the warp before
};

class Clocks {
 public:
  void begin_block(unsigned threads);
  void warp_met(unsigned warp, uint32_t lanes);
  void block_met() { ++epoch_; }

  Moment now(unsigned thread) const { return {thread, epoch_, known(thread)[lane_of(thread)]}; }

  // Whether something at that moment of this block is over for a thread.
  bool before(const Moment& moment, unsigned thread) const {
    return moment.thread == thread || moment.epoch < epoch_ ||
           (warp_of(moment.thread) == warp_of(thread) &&
            known(thread)[lane_of(moment.thread)] >= moment.time);
  }

  static unsigned warp_of(unsigned thread) { return thread / Device::kWarp; }
  static unsigned lane_of(unsigned thread) { return thread % Device::kWarp; }

 private:
  // The last moment of each lane of its warp that a thread knows of; its own one is now.
  using Times = std::array<uint32_t, Device::kWarp>;

  const Times& known(unsigned thread) const { return known_[thread]; }

  std::vector<Times> known_;
  uint32_t epoch_ = 0;
};

}  // namespace equigeo::simulator
