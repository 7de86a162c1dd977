// How kernels are simulated, from the environment unless a test says otherwise.
#pragma once

#include <cstdint>
#include <string>

#include "simulator/device.h"
#include "simulator/error.h"
#include "simulator/order.h"

namespace equigeo::simulator {

struct Settings {
  Device device = kSm90;
  Order order;
  std::string skipped;    // a barrier or wait that does nothing, as file:line, to see it noticed
  int64_t shortfall = 0;  // bytes that dynamic shared memory has less than was asked for

  // From EQUIGEO_SIMULATE_DEVICE (sm_80, sm_90), _ORDER (forward, reversed, or a seed),
  // _SKIP (file:line) and _SHORTFALL (bytes).
  static Settings from_environment();

  bool skips(const Place& place) const;
};

Settings& settings();

}  // namespace equigeo::simulator
