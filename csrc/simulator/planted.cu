// A kernel with mistakes to choose from: the control, which each kind of checks must report.
#include <string>

#include "simulator/error.h"

namespace equigeo::simulator {
namespace {

enum Mistake { kNone, kBeyondTheEnd, kOverflow, kNoBarrier };

constexpr int kLanes = 32;

// Every lane takes over the number of the next one.
__global__ void pass_on(int mistake, int* to) {
  int* shared = dynamic_shared<int>();
  const int lane = static_cast<int>(threadIdx.x);
  shared[lane] = lane;
  if (mistake != kNoBarrier) {
    __syncwarp();
  }
  const int number = shared[mistake == kBeyondTheEnd ? lane + 1 : (lane + 1) % kLanes];
  to[lane] = mistake == kOverflow ? number + 0x7fffffff : number;
}

}  // namespace
}  // namespace equigeo::simulator

// Null, or what is reported as an error; sanitizers end the program.
extern "C" __attribute__((visibility("default"))) const char* equigeo_run_planted(int mistake) {
  using namespace equigeo::simulator;
  static std::string message;
  int numbers[kLanes];
  const cudaLaunchConfig_t config{1, kLanes, kLanes * sizeof(int), nullptr};
  try {
    cudaLaunchKernelEx(&config, pass_on, mistake, &numbers[0]);
  } catch (const Error& error) {
    message = error.what();
    return message.c_str();
  }
  return nullptr;
}
