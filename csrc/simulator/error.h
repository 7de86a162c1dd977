// Errors of simulated kernels, which name the place in the source.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace equigeo::simulator {

// Raised for calls that fail on a GPU, or whose result would vary.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Where a kernel calls something. Functions that stand for CUDA's take __builtin_FILE() and
// __builtin_LINE() as default arguments, which are those of the caller.
struct SourceLocation {
  const char* file = "";
  int line = 0;

  // File names outlive the library, but the same file has a name for each source that includes it.
  bool operator==(const SourceLocation& other) const {
    return line == other.line && (file == other.file || std::string_view(file) == other.file);
  }
};

inline std::ostream& operator<<(std::ostream& to, const SourceLocation& place) {
  return to << place.file << ':' << place.line;
}

template <class... Parts>
std::string joined(const Parts&... parts) {
  std::ostringstream message;
  (message << ... << parts);
  return message.str();
}

template <class... Parts>
[[noreturn]] __attribute__((noinline, cold)) void refuse(const Parts&... parts) {
  throw Error(joined(parts...));
}

}  // namespace equigeo::simulator
