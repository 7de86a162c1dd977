// Grids, shared memory, and launches that fail on a GPU.
#include <algorithm>
#include <cmath>
#include <thread>

#include "simulated.h"

namespace equigeo {
namespace {

void count_up(int* counts) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  ++counts[block * blockDim.x * blockDim.y * blockDim.z + thread];
}

const bool grids = check::add("every thread of every block runs once", [] {
  check::for_orders([] {
    std::vector<int> counts(2 * 3 * 4 * 5 * 6 * 7);
    check::launch({{2, 3, 4}, {5, 6, 7}}, count_up, counts.data());
    check::holds(std::count(counts.begin(), counts.end(), 1) == int64_t(counts.size()), "once");
  });
});

std::vector<unsigned> turns(unsigned blocks, unsigned threads) {
  std::vector<unsigned> list;
  check::launch(
      {blocks, threads},
      +[](std::vector<unsigned>* list) { list->push_back(blockIdx.x * blockDim.x + threadIdx.x); },
      &list);
  return list;
}

const bool orders = check::add("threads, warps and blocks come in the order that is asked for", [] {
  std::vector<unsigned> forward(3 * 70);
  std::iota(forward.begin(), forward.end(), 0u);
  check::holds(turns(3, 70) == forward, "forward");
  check::settings().order = check::Order(check::Order::Kind::kReversed);
  check::holds(turns(3, 70) == std::vector<unsigned>(forward.rbegin(), forward.rend()), "reversed");
  const auto with_seed = [](uint64_t seed) {
    check::settings().order = check::Order(check::Order::Kind::kRandom, seed);
    return turns(3, 70);
  };
  const std::vector<unsigned> first = with_seed(1);
  check::holds(first == with_seed(1), "a seed repeats itself");
  check::holds(first != with_seed(2) && first != forward, "another seed is another order");
  check::holds(std::is_permutation(first.begin(), first.end(), forward.begin()), "all of them");
  check::settings().order = check::Order();
});

const bool poison = check::add("shared memory is poisoned before every block", [] {
  std::vector<float> found(8);
  check::launch(
      {4, 1, sizeof(float)},
      +[](float* found) {
        float& dynamic = *simulator::dynamic_shared<float>();
        float& variable = simulator::static_shared<float[3]>()[2];
        found[2 * blockIdx.x] = dynamic;
        found[2 * blockIdx.x + 1] = variable;
        dynamic = variable = 1;
      },
      found.data());
  check::holds(
      std::all_of(found.begin(), found.end(), [](float x) { return std::isnan(x); }), "NaN");
});

const bool variables = check::add("variables in shared memory are one for a block and a type", [] {
  const int* found[3] = {};
  check::launch(
      {1, 64},
      +[](const int** found) {
        found[threadIdx.x / 32] = simulator::static_shared<int[2]>();
        found[2] = simulator::static_shared<int[3]>();
      },
      &found[0]);
  check::holds(found[0] != nullptr && found[0] == found[1], "of one type");
  check::holds(found[2] != found[0], "of another type");
});

const bool vectors = check::add("vectors are read where they are aligned, and nowhere else", [] {
  alignas(16) static const float numbers[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  const auto kernel = +[](int first, float* sum) {
    const float4 vector = *reinterpret_cast<const float4*>(numbers + first);
    *sum = vector.x + vector.y + vector.z + vector.w;
  };
  float sum = 0;
  check::launch({1, 1}, kernel, 4, &sum);
  check::holds(sum == 22, "4 + 5 + 6 + 7");
  check::refused([&] { check::launch({1, 1}, kernel, 1, &sum); }, {"a vector of 16 bytes"});
});

void nothing() {}
void nothing_much() {}
void nothing_else() {}

const bool limits = check::add("grids and blocks that a card cannot have are refused", [] {
  check::refused([] { check::launch({0, 32}, nothing); }, {"a grid is 0 x 1 x 1"});
  check::refused([] { check::launch({{1, 65536}, 32}, nothing); }, {"a grid", "x 65535 x"});
  check::refused([] { check::launch({1, 1025}, nothing); }, {"a block is 1025 x 1 x 1", "sm_90"});
  check::refused([] { check::launch({1, {1, 1, 65}}, nothing); }, {"a block", "x 64 on"});
  check::refused([] { check::launch({1, {32, 33}}, nothing); }, {"1056 threads"});
  check::launch({1, 1024}, nothing);
});

struct Large {
  char bytes[32765];
};
void take_large(Large) {}

const bool arguments = check::add("arguments that are too large are refused", [] {
  check::refused([] { check::launch({1, 1}, take_large, Large{}); }, {"32765 bytes"});
});

const bool shared = check::add("shared memory has the size that the device has, if asked for", [] {
  check::launch({1, 1, 48 << 10}, nothing);
  check::refused([] { check::launch({1, 1, (48 << 10) + 1}, nothing); }, {"49153", "have 49152"});
  const auto attribute = cudaFuncAttributeMaxDynamicSharedMemorySize;
  for (const auto& [device, most] :
       {std::pair{simulator::kSm80, 163 << 10}, {simulator::kSm90, 227 << 10}}) {
    check::settings().device = device;
    int reported = 0;
    cudaDeviceGetAttribute(&reported, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0);
    check::holds(reported == most, device.name);
    check::holds(cudaFuncSetAttribute(nothing_much, attribute, most) == cudaSuccess, "as much");
    check::launch({1, 1, most}, nothing_much);
    check::holds(cudaFuncSetAttribute(nothing_much, attribute, most + 1) != cudaSuccess, "no more");
    check::holds(
        std::string(cudaGetErrorName(cudaGetLastError())) == "cudaErrorInvalidValue", "why");
    check::holds(cudaGetLastError() == cudaSuccess, "once");
  }
  check::holds(cudaFuncSetAttribute(nothing_else, attribute, 50000) == cudaSuccess, "some");
  check::refused([] { check::launch({1, 1, 50001}, nothing_else); }, {"may have 50000"});
});

const bool together = check::add("variables and dynamic shared memory count together", [] {
  const auto kernel = +[] { simulator::static_shared<char[1000]>()[0] = 0; };
  check::launch({1, 1, (48 << 10) - 1000}, kernel);
  check::refused(
      [&] { check::launch({1, 1, (48 << 10) - 999}, kernel); }, {"has 49153 bytes of shared"});
});

const bool hosts = check::add("host threads wait for one another", [] {
  std::vector<std::thread> threads;
  int counts[32] = {};
  for (int n = 0; n < 4; ++n) {
    threads.emplace_back([&counts] {
      for (int again = 0; again < 50; ++again) {
        check::launch({1, 32}, count_up, &counts[0]);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  check::holds(std::all_of(counts, counts + 32, [](int n) { return n == 200; }), "each its turn");
});

const bool deep = check::add("a thread has a stack of its own", [] {
  int64_t sums[64] = {};
  check::launch(
      {1, 64},
      +[](int64_t* sums) {
        int64_t numbers[1000];
        for (int n = 0; n < 1000; ++n) {
          numbers[n] = n * int64_t{threadIdx.x};
        }
        __syncthreads();
        sums[threadIdx.x] = std::accumulate(numbers, numbers + 1000, int64_t{0});
      },
      &sums[0]);
  check::holds(sums[0] == 0 && sums[63] == 63 * 499500, "kept while others ran");
});

}  // namespace
}  // namespace equigeo
