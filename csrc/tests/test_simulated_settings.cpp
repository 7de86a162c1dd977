// Settings of the simulation in the environment.
#include <cstdlib>

#include "simulated.h"

namespace equigeo {
namespace {

simulator::Settings with(const char* name, const char* value) {
  setenv(name, value, 1);
  try {
    const simulator::Settings settings = simulator::Settings::from_environment();
    unsetenv(name);
    return settings;
  } catch (...) {
    unsetenv(name);
    throw;
  }
}

const bool plain = check::add("settings: sm_90, forward", [] {
  const simulator::Settings settings = simulator::Settings::from_environment();
  check::holds(settings.device.name == std::string("sm_90"), "the device");
  check::holds(!settings.order.random(), "the order");
});

const bool named = check::add("settings: as the environment says", [] {
  const auto device = with("EQUIGEO_SIMULATE_DEVICE", "sm_80").device;
  check::holds(device.shared_per_block == 163 << 10, "sm_80");
  check::holds(with("EQUIGEO_SIMULATE_ORDER", "17").order.random(), "a seed");
  check::holds(!with("EQUIGEO_SIMULATE_ORDER", "reversed").order.random(), "reversed");
});

const bool refused = check::add("settings: what is not understood is refused", [] {
  check::refused([] { with("EQUIGEO_SIMULATE_DEVICE", "sm_70"); }, {"sm_80 or sm_90, got sm_70"});
  check::refused([] { with("EQUIGEO_SIMULATE_ORDER", "back"); }, {"reversed", "got back"});
});

}  // namespace
}  // namespace equigeo
