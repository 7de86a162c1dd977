#include "simulator/settings.h"

#include <cstdlib>
#include <string>

#include "simulator/error.h"

namespace equigeo::simulator {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

uint64_t number(const char* name, const std::string& text) {
  if (text.find_first_not_of("0123456789") != std::string::npos || text.size() > 18) {
    refuse(name, " must be a whole number, got ", text);
  }
  return std::stoull(text);
}

Order order_named(const std::string& name) {
  if (name.empty() || name == "forward") {
    return Order(Order::Kind::kForward);
  }
  if (name == "reversed") {
    return Order(Order::Kind::kReversed);
  }
  return Order(
      Order::Kind::kRandom, number("EQUIGEO_SIMULATE_ORDER, if not forward or reversed,", name));
}

Device device_named(const std::string& name) {
  if (name.empty() || name == kSm90.name) {
    return kSm90;
  }
  if (name == kSm80.name) {
    return kSm80;
  }
  refuse("EQUIGEO_SIMULATE_DEVICE must be sm_80 or sm_90, got ", name);
}

}  // namespace

Settings Settings::from_environment() {
  Settings settings;
  settings.device = device_named(variable("EQUIGEO_SIMULATE_DEVICE"));
  settings.order = order_named(variable("EQUIGEO_SIMULATE_ORDER"));
  return settings;
}

Settings& settings() {
  static Settings all = Settings::from_environment();
  return all;
}

}  // namespace equigeo::simulator
