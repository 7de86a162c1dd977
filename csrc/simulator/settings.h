// How kernels are simulated, from the environment unless a test says otherwise.
#pragma once

#include <cstdint>
#include <string>

#include "simulator/device.h"
#include "simulator/error.h"
#include "simulator/order.h"

namespace equigeo::simulator {

// A place, or none, as the end of the name of a file, a colon and a line.
class Skipped {
 public:
  Skipped() = default;
  Skipped(const std::string& place);

  bool operator==(const SourceLocation& place) const;
  bool none() const { return line_ == 0; }

 private:
  std::string file_;
  int line_ = 0;
};

struct Settings {
  Device device = kSm90;
  Order order;
  Skipped skipped;        // a barrier or wait that does nothing, to see it noticed
  int64_t shortfall = 0;  // bytes that dynamic shared memory has less than was asked for

  // From EQUIGEO_SIMULATE_DEVICE (sm_80, sm_90), _ORDER (forward, reversed, or a seed),
  // _SKIP (file:line) and _SHORTFALL (bytes).
  static Settings from_environment();

  bool skips(const SourceLocation& place) const { return skipped == place; }
};

Settings& settings();

}  // namespace equigeo::simulator
