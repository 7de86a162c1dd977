// How kernels are simulated, from the environment unless a test sets it.
#pragma once

#include "simulator/device.h"
#include "simulator/order.h"

namespace equigeo::simulator {

struct Settings {
  Device device = kSm90;
  Order order;

  // From EQUIGEO_SIMULATE_DEVICE (sm_80, sm_90) and _ORDER (forward, reversed, or a seed).
  static Settings from_environment();
};

Settings& settings();

}  // namespace equigeo::simulator
