// Accesses in no order, found in whatever order they happen to come.
#include "simulated.h"

namespace equigeo {
namespace {

constexpr int64_t kBytes = 64 * sizeof(int);

// A kernel of two warps, of which a race is known or known to be absent.
struct Case {
  const char* name;
  void (*kernel)(int*);
  bool races;
  unsigned blocks = 1;
};

int* shared() { return simulator::dynamic_shared<int>(); }
unsigned thread() { return threadIdx.x; }

const Case kCases[] = {
    {"each thread its own", +[](int*) { shared()[thread()] = 1, shared()[thread()] += 1; }, false},
    {"a number of the neighbour",
     +[](int*) {
       shared()[thread()] = 1;
       shared()[(thread() + 1) % 64] += 1;
     },
     true},
    {"behind a barrier of the block",
     +[](int*) {
       shared()[thread()] = 1;
       __syncthreads();
       shared()[63 - thread()] += 1;
     },
     false},
    {"behind a barrier of the warp, inside of it",
     +[](int*) {
       shared()[thread()] = 1;
       __syncwarp();
       shared()[thread() ^ 31] += 1;
     },
     false},
    {"behind a barrier of the warp, outside of it",
     +[](int*) {
       shared()[thread()] = 1;
       __syncwarp();
       shared()[thread() ^ 32] += 1;
     },
     true},
    {"behind a shuffle, which orders nothing",
     +[](int*) {
       shared()[thread()] = 1;
       __shfl_xor_sync(~0u, 1, 1);
       shared()[thread() ^ 1] += 1;
     },
     true},
    {"lanes behind a barrier of others",
     +[](int*) {
       shared()[thread()] = 1;
       if (thread() % 32 < 16) {
         __syncwarp(0xffffu);
         shared()[thread() ^ 16] += 1;
       }
     },
     true},
    {"lanes behind their own barrier",
     +[](int*) {
       shared()[thread()] = 1;
       if (thread() % 32 < 16) {
         __syncwarp(0xffffu);
         shared()[thread() ^ 15] += 1;
       }
     },
     false},
    {"all read, none writes",
     +[](int*) {
       shared()[thread()] = 1;
       __syncthreads();
       int sum = 0;
       for (int n = 0; n < 64; ++n) {
         sum += shared()[n];
       }
       __syncthreads();
       shared()[thread()] = sum;
     },
     false},
    {"a write while others may still read",
     +[](int*) {
       shared()[thread()] = 1;
       __syncthreads();
       const int next = shared()[thread() ^ 32];
       shared()[thread()] = next;
     },
     true},
    {"a write while lanes of the warp may still read",
     +[](int*) {
       shared()[thread()] = 1;
       __syncwarp();
       const int next = shared()[thread() / 32 * 32];
       shared()[thread()] = next;
     },
     true},
    {"shared memory that nobody wrote", +[](int* to) { to[thread()] = shared()[thread()]; }, true},
    {"blocks that write apart", +[](int* to) { to[64 * blockIdx.x + thread()] = 1; }, false, 4},
    {"blocks that write the same", +[](int* to) { to[thread()] = 1; }, true, 2},
    {"blocks that read what one of them writes",
     +[](int* to) { to[64 * (blockIdx.x + 1) + thread()] = to[thread()]; }, false, 1},
    {"blocks that read what others write",
     +[](int* to) { to[64 * (blockIdx.x + 1) + thread()] = to[64 * blockIdx.x + thread()]; }, true,
     3},
    {"bytes side by side",
     +[](int* to) { reinterpret_cast<char*>(to)[64 * blockIdx.x + thread()] = 1; }, false, 2},
    {"atomic additions", +[](int* to) { atomicAdd(to, 1); }, false, 2},
    {"an atomic addition and a write",
     +[](int* to) { thread() == 0 ? void(*to = 1) : void(atomicAdd(to, 1)); }, true},
};

const bool cases = [] {
  for (const Case& c : kCases) {
    check::add(std::string(c.races ? "a race: " : "no race: ") + c.name, [&c] {
      check::for_orders([&c] {
        std::vector<int> to(5 * 64);
        const auto run = [&] { check::launch({c.blocks, 64, kBytes}, c.kernel, to.data()); };
        if (!c.races) {
          return run();
        }
        check::refused(
            run, {"accesses that no barrier puts in order", "test_simulated_races.cpp:"});
      });
    });
  }
  return true;
}();

const bool aligned = check::add("what processors forgive and cards do not is refused", [] {
  std::vector<int> to(4);
  const auto kernel = +[](char* to) { *reinterpret_cast<int*>(to) = 1; };
  char* const bytes = reinterpret_cast<char*>(to.data());
  check::launch({1, 1}, kernel, bytes + 4);
  check::refused(
      [&] { check::launch({1, 1}, kernel, bytes + 2); },
      {"4 bytes are read or written at an address that is no multiple", "_races.cpp:"});
});

const bool launches = check::add("a kernel comes behind the one before it", [] {
  std::vector<int> to(64);
  for (int again = 0; again < 2; ++again) {
    check::launch({1, 64}, +[](int* to) { to[63 - threadIdx.x] += 1; }, to.data());
    check::launch({1, 64}, +[](int* to) { to[threadIdx.x] += 1; }, to.data());
  }
  check::holds(to.front() == 4 && to.back() == 4, "four times");
});

const bool copies = check::add("an asynchronous copy is an access of its thread", [] {
  const std::vector<int> from(64, 7);
  const auto run = [&](bool own) {
    std::vector<int> to(64);
    check::launch(
        {1, 64, kBytes},
        +[](const int* from, int* to, bool own) {
          __pipeline_memcpy_async(shared() + thread(), from + thread(), sizeof(int));
          __pipeline_commit();
          __pipeline_wait_prior(0);
          to[thread()] = shared()[own ? thread() : thread() ^ 1];
        },
        from.data(), to.data(), own);
  };
  run(true);
  check::refused([&] { run(false); }, {"_races.cpp:"});
});

}  // namespace
}  // namespace equigeo
