// Launching small kernels on the simulator, and what they do wrong.
#pragma once

#include <functional>
#include <string>

#include "check.h"

namespace check {

using equigeo::simulator::Error;
using equigeo::simulator::Order;
using equigeo::simulator::settings;

struct Shape {
  dim3 grid, block;
  int64_t shared_bytes = 0;
};

template <class... Parameters, class... Arguments>
void launch(const Shape& shape, void (*kernel)(Parameters...), Arguments... arguments) {
  const cudaLaunchConfig_t config{
      shape.grid, shape.block, static_cast<size_t>(shape.shared_bytes), nullptr};
  cudaLaunchKernelEx(&config, kernel, arguments...);
}

// That `body` raises with a message that has all of these parts.
inline void refused(const std::function<void()>& body, std::initializer_list<const char*> parts) {
  try {
    body();
  } catch (const Error& error) {
    for (const char* part : parts) {
      if (std::string(error.what()).find(part) == std::string::npos) {
        fail(std::string("no \"") + part + "\" in: " + error.what());
      }
    }
    return;
  }
  fail("nothing was refused");
}

// In every order.
inline void for_orders(const std::function<void()>& body) {
  for (const Order& order :
       {Order(Order::Kind::kForward), Order(Order::Kind::kReversed), Order(Order::Kind::kRandom, 1),
        Order(Order::Kind::kRandom, 2)}) {
    settings().order = order;
    body();
  }
  settings().order = Order();
}

// A line of this source, as messages name it.
inline std::string here(int line = __builtin_LINE()) { return ":" + std::to_string(line); }

}  // namespace check
