#include "simulator/clocks.h"

#include <algorithm>

namespace equigeo::simulator {

void Clocks::begin_block(unsigned threads) {
  const unsigned lanes = (threads + Device::kWarp - 1) / Device::kWarp * Device::kWarp;
  known_.assign(lanes, Times{});
  for (unsigned thread = 0; thread < lanes; ++thread) {
    known_[thread][lane_of(thread)] = 1;  // which nobody else knows of
  }
  epoch_ = 0;
}

void Clocks::warp_met(unsigned warp, uint32_t lanes) {
  Times* times = &known_[warp * Device::kWarp];
  Times all{};
  for (unsigned lane = 0; lane < Device::kWarp; ++lane) {
    for (unsigned other = 0; (lanes >> lane & 1) != 0 && other < Device::kWarp; ++other) {
      all[other] = std::max(all[other], times[lane][other]);
    }
  }
  for (unsigned lane = 0; lane < Device::kWarp; ++lane) {
    if ((lanes >> lane & 1) != 0) {
      times[lane] = all;
      ++times[lane][lane];
    }
  }
}

}  // namespace equigeo::simulator
