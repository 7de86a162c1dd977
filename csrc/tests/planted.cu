// A kernel with mistakes to choose from: the control, which each kind of checks must report.
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/carver.h"
#include "simulator/error.h"

namespace equigeo::simulator {
namespace {

enum Mistake { kNone, kBeyondTheEnd, kOverflow, kNoBarrier, kBeyondItsPiece };

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
  to[lane + (mistake == kBeyondItsPiece)] = mistake == kOverflow ? number + 0x7fffffff : number;
}

}  // namespace
}  // namespace equigeo::simulator

// Null, or what is reported as an error; sanitizers end the program.
extern "C" __attribute__((visibility("default"))) const char* equigeo_run_planted(int mistake) {
  using namespace equigeo::simulator;
  static std::string message;
  const auto cut = [](void* memory) {
    equigeo::Carver carver(memory);
    int* numbers = carver.take<int>(kLanes);
    carver.take<int>(kLanes);
    return std::pair(numbers, carver.used());
  };
  std::vector<char> memory(static_cast<size_t>(cut(nullptr).second));
  const cudaLaunchConfig_t config{1, kLanes, kLanes * sizeof(int), nullptr};
  try {
    cudaLaunchKernelEx(&config, pass_on, mistake, cut(memory.data()).first);
  } catch (const Error& error) {
    message = error.what();
    return message.c_str();
  }
  return nullptr;
}
