#include "simulator/code_place.h"

#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <memory>

#include "simulator/error.h"

namespace equigeo::simulator {
namespace {

std::string output_of(const std::string& command) {
  std::string text;
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  char part[256];
  while (pipe && fgets(part, sizeof(part), pipe.get()) != nullptr) {
    text += part;
  }
  return text;
}

// addr2line writes a function and a place in turn, what was inlined first. The simulator's own
// functions are left out; of the others the innermost ones name the place.
std::string places_in(const std::string& lines) {
  constexpr int kMost = 3;
  std::istringstream all(lines);
  std::string function, place, found;
  for (int count = 0; count < kMost && std::getline(all, function) && std::getline(all, place);) {
    place = place.substr(0, place.find(' '));
    if (place.find("/simulator/") == std::string::npos && place[0] != '?') {
      found += (count++ > 0 ? ", in " : "") + place.substr(place.rfind('/') + 1);
    }
  }
  return found;
}

// The output of addr2line for an address, with options; or nothing.
std::string looked_up(const char* options, uintptr_t code) {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(code), &info) == 0 || info.dli_fname == nullptr) {
    return "";
  }
  const uintptr_t offset = code - reinterpret_cast<uintptr_t>(info.dli_fbase);
  return output_of(joined(
      "addr2line ", options, " -e '", info.dli_fname, "' 0x", std::hex, offset, " 2>/dev/null"));
}

}  // namespace

std::string place_of(const void* code) {
  // The address behind a call may belong to the next line.
  const std::string places = places_in(looked_up("-fi", reinterpret_cast<uintptr_t>(code) - 1));
  return places.empty() ? joined("the code at ", code) : places;
}

std::string function_at(const void* code) {
  std::string name = looked_up("-fC", reinterpret_cast<uintptr_t>(code));
  name = name.substr(0, name.find('\n'));
  name = name.substr(0, name.rfind('('));
  const std::string space = "(anonymous namespace)::";
  const size_t begin = name.find(space);
  return begin == std::string::npos ? name : name.substr(begin + space.size());
}

}  // namespace equigeo::simulator
