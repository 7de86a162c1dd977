#include "simulator/settings.h"

#include <cstdlib>
#include <string_view>

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
  settings.skipped = variable("EQUIGEO_SIMULATE_SKIP");
  const std::string shortfall = variable("EQUIGEO_SIMULATE_SHORTFALL");
  settings.shortfall = shortfall.empty() ? 0 : number("EQUIGEO_SIMULATE_SHORTFALL", shortfall);
  return settings;
}

Skipped::Skipped(const std::string& place) {
  const size_t colon = place.rfind(':');
  if (colon != std::string::npos) {
    file_ = place.substr(0, colon);
    line_ = static_cast<int>(number("the line behind a colon", place.substr(colon + 1)));
  } else if (!place.empty()) {
    refuse("a place must be a file, a colon and a line, got ", place);
  }
}

// Lines are asked for first: this comes before every barrier.
bool Skipped::operator==(const SourceLocation& place) const {
  const std::string_view name = place.file;
  return place.line == line_ && name.size() >= file_.size() &&
         name.substr(name.size() - file_.size()) == file_;
}

Settings& settings() {
  static Settings all = Settings::from_environment();
  return all;
}

}  // namespace equigeo::simulator
