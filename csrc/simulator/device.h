// What the simulated card allows.
#pragma once

#include <cstdint>

namespace equigeo::simulator {

// Technical specifications per compute capability: CUDA C++ Programming Guide 13.0, section 20.2.
struct Device {
  const char* name;
  int64_t shared_per_block;  // bytes that a kernel may ask for, by an attribute

  static constexpr int64_t kSharedUnasked = 48 << 10;  // bytes without that attribute
  static constexpr unsigned kWarp = 32;
  static constexpr unsigned kThreads = 1024;  // of a block
  static constexpr unsigned kBlockX = 1024, kBlockY = 1024, kBlockZ = 64;
  static constexpr unsigned kGridX = 0x7fffffff, kGridY = 65535, kGridZ = 65535;
  static constexpr int64_t kArguments = 32764;  // bytes, since CUDA 12.1; sm_70 and later
};

constexpr Device kSm80{"sm_80", 163 << 10};
constexpr Device kSm90{"sm_90", 227 << 10};

}  // namespace equigeo::simulator
