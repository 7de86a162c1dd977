// What comes before the first launch on a device: Python may want to test the kernels there.
#pragma once

#include <atomic>

#include "register/tensors.h"

namespace equigeo {

// Whether a device may be used without a question; by its index, which is -1 for the CPU.
constexpr int kMostDevices = 256;
extern std::atomic<bool> trusted_devices[kMostDevices];

// Asks Python, and raises where the answer is no.
void ask_before_launch(int device);

inline void check_first_use(const Tensor& like) {
  const int device = like.get_device_index();
  if (!trusted_devices[static_cast<unsigned char>(device)].load(std::memory_order_relaxed)) {
    ask_before_launch(device);
  }
}

}  // namespace equigeo
