#include "register/cuda/first_use.h"

#include "register/check.h"

namespace equigeo {

std::atomic<bool> trusted_devices[kMostDevices];

namespace {

// Returns 1 if kernels may be launched on a device. Else it has written why not, with a zero at the
// end, into as many bytes as it was given.
using BeforeLaunch = int (*)(int device, char* message, int size);

std::atomic<BeforeLaunch> before_launch{nullptr};

void trust(int device, bool trusted) {
  trusted_devices[static_cast<unsigned char>(device)].store(trusted, std::memory_order_relaxed);
}

}  // namespace

void ask_before_launch(int device) {
  const BeforeLaunch ask = before_launch.load();
  if (ask == nullptr) {  // a process without Python, or one that wants no test
    trust(device, true);
    return;
  }
  char message[2048] = "";
  EQUIGEO_CHECK(ask(device, message, sizeof(message)) == 1, message);
}

}  // namespace equigeo

// What Python calls, see equigeo/ops/first_use.py.
#define EQUIGEO_EXPORT extern "C" __attribute__((visibility("default")))

EQUIGEO_EXPORT void equigeo_watch_devices(int (*ask)(int, char*, int)) {
  equigeo::before_launch.store(ask);
  for (std::atomic<bool>& device : equigeo::trusted_devices) {
    device.store(false);
  }
}

EQUIGEO_EXPORT void equigeo_trust_device(int device, int trusted) {
  equigeo::trust(device, trusted != 0);
}

// Numbers of compute capabilities, separated by commas.
EQUIGEO_EXPORT const char* equigeo_architectures() { return EQUIGEO_ARCHITECTURES; }
