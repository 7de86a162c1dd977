// Threads that wait for one another, and those that wait in vain.
#include "simulated.h"

namespace equigeo {
namespace {

constexpr unsigned kThreads = 96;

// Every thread reads what the one behind it wrote: right in any order, only behind a barrier.
void pass_on(int* to, bool wait) {
  int* numbers = simulator::dynamic_shared<int>();
  numbers[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (wait) {
    __syncthreads();
  }
  to[threadIdx.x] = numbers[(threadIdx.x + 1) % blockDim.x];
}

std::vector<int> passed_on(bool wait) {
  std::vector<int> to(kThreads);
  check::launch({1, kThreads, kThreads * sizeof(int)}, pass_on, to.data(), wait);
  return to;
}

const bool block = check::add("a block waits at its barrier, in every order", [] {
  std::vector<int> want(kThreads);
  for (unsigned n = 0; n < kThreads; ++n) {
    want[n] = static_cast<int>((n + 1) % kThreads);
  }
  check::for_orders([&] { check::holds(passed_on(true) == want, "numbers of the next thread"); });
  check::for_orders([&] { check::holds(passed_on(false) != want, "poison without the barrier"); });
});

const bool warp = check::add("a warp waits for its own lanes alone", [] {
  check::for_orders([] {
    std::vector<int> to(64);
    check::launch(
        {1, 64, 64 * sizeof(int)},
        +[](int* to) {
          int* numbers = simulator::dynamic_shared<int>() + threadIdx.x / 32 * 32;
          const unsigned lane = threadIdx.x % 32;
          for (int turn = 0; turn < 5; ++turn) {
            numbers[lane] = turn;
            __syncwarp();
            to[threadIdx.x] += numbers[31 - lane];
            __syncwarp();
          }
        },
        to.data());
    check::holds(to == std::vector<int>(64, 0 + 1 + 2 + 3 + 4), "what the other lane wrote");
  });
});

const bool partial = check::add("some lanes of a warp wait for one another", [] {
  check::for_orders([] {
    int sum = 0;
    check::launch(
        {1, 32, 16 * sizeof(int)},
        +[](int* sum) {
          int* numbers = simulator::dynamic_shared<int>();
          if (threadIdx.x < 16) {
            numbers[threadIdx.x] = static_cast<int>(threadIdx.x);
            __syncwarp(0xffffu);
            if (threadIdx.x == 0) {
              for (int n = 0; n < 16; ++n) {
                *sum += numbers[n];
              }
            }
          }
          __syncwarp();
        },
        &sum);
    check::holds(sum == 120, "the sum of 0 to 15");
  });
});

const bool finished = check::add("threads that have returned are not waited for", [] {
  check::for_orders([] {
    int count = 0;
    check::launch(
        {1, 40},
        +[](int* count) {
          if (threadIdx.x % 3 == 0) {
            return;
          }
          __syncwarp();
          __syncthreads();
          ++*count;
        },
        &count);
    check::holds(count == 26, "those that are left");
  });
});

int line_of_barrier = 0;

void wait_apart(bool in_block) {
  if (threadIdx.x == 5) {
    return __syncwarp();
  }
  line_of_barrier = __LINE__ + 1;
  in_block ? __syncthreads() : __syncwarp(~(1u << 5));
  __syncwarp();
}

const bool divergent =
    check::add("a barrier that a live thread does not reach names its place", [] {
      check::for_orders([] {
        const auto run = [] { check::launch({1, 64}, wait_apart, true); };
        check::refused(run, {"test_simulated_barriers.cpp:", "__syncthreads", "thread 5"});
        check::refused(run, {check::here(line_of_barrier).c_str()});
      });
    });

const bool lanes = check::add("a barrier of lanes that others wait elsewhere for is an error", [] {
  const auto run = [] { check::launch({1, 32}, wait_apart, false); };
  check::refused(run, {"__syncwarp", "thread 5"});
});

const bool stranger = check::add("a lane waits only where it is named", [] {
  const auto run = [] { check::launch({1, 32}, +[] { __syncwarp(0xfffffffeu); }); };
  check::refused(run, {"lane 0 is not among the lanes that it names", "test_simulated_barriers"});
});

const bool again = check::add("after an error the next kernel runs as if there was none", [] {
  check::refused([] { check::launch({2, 64}, wait_apart, true); }, {"__syncthreads"});
  check::holds(passed_on(true).back() == 0, "the number of the first thread");
});

const bool thrown = check::add("what a thread throws comes out of the launch", [] {
  const auto run = [] {
    check::launch(
        {3, 64}, +[] {
          __syncthreads();
          if (blockIdx.x == 1 && threadIdx.x == 40) {
            __trap();
          }
          __syncthreads();
        });
  };
  check::refused(run, {"__trap", "test_simulated_barriers.cpp:"});
});

const bool outside = check::add("a barrier is refused outside of kernels", [] {
  check::refused([] { __syncthreads(); }, {"outside of a kernel"});
});

}  // namespace
}  // namespace equigeo
