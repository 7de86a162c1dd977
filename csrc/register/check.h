// Errors for wrong arguments.
#pragma once

#include <sstream>
#include <stdexcept>

namespace equigeo {

// Raises RuntimeError in Python. The message is a sentence for callers: EQUIGEO_CHECK would put
// the names of a function and of a file of this project before it.
template <class... Parts>
[[noreturn]] __attribute__((noinline, cold)) void refuse(const Parts&... parts) {
  std::ostringstream message;
  (message << ... << parts);
  throw std::runtime_error(message.str());
}

}  // namespace equigeo

// What follows the condition is only computed where it does not hold.
#define EQUIGEO_CHECK(condition, ...) \
  do {                                \
    if (!(condition)) {               \
      ::equigeo::refuse(__VA_ARGS__); \
    }                                 \
  } while (false)
