// Values that lanes of a warp exchange.
#include "simulated.h"

namespace equigeo {
namespace {

constexpr unsigned kAll = 0xffffffffu;

template <class T>
void add_up(T* to) {
  T value = static_cast<T>(threadIdx.x + 1);
  for (unsigned lanes = 16; lanes > 0; lanes /= 2) {
    value += __shfl_xor_sync(kAll, value, lanes);
  }
  to[threadIdx.x] = value;
}

const bool sums = check::add_for_floats("a butterfly adds up a warp", [](auto zero) {
  using T = decltype(zero);
  check::for_orders([] {
    std::vector<T> to(64);
    check::launch({1, 64}, add_up<T>, to.data());
    check::holds(to.front() == 528 && to[31] == 528, "1 + ... + 32");
    check::holds(to[32] == 528 + 1024 && to.back() == 528 + 1024, "33 + ... + 64");
  });
});

const bool one = check::add("every lane reads the lane that it names", [] {
  check::for_orders([] {
    std::vector<int> to(32);
    check::launch(
        {1, 32},
        +[](int* to) {
          const int mine = static_cast<int>(10 * threadIdx.x);
          to[threadIdx.x] = __shfl_sync(kAll, mine, threadIdx.x / 8);
        },
        to.data());
    check::holds(to[0] == 0 && to[8] == 10 && to[31] == 30, "values of lanes 0 to 3");
  });
});

const bool some = check::add("some lanes shuffle while others do something else", [] {
  check::for_orders([] {
    std::vector<int> to(32);
    check::launch(
        {1, 32},
        +[](int* to) {
          int value = static_cast<int>(threadIdx.x);
          if (threadIdx.x < 8) {
            value = __shfl_xor_sync(0xffu, value, 1);
            value = __shfl_xor_sync(0xffu, value, 1);
          } else {
            value = __shfl_xor_sync(~0xffu, value, 1);
          }
          to[threadIdx.x] = value;
        },
        to.data());
    check::holds(to[0] == 0 && to[7] == 7, "there and back");
    check::holds(to[8] == 9 && to[31] == 30, "once");
  });
});

const bool missing = check::add("the value of a lane that takes no part is refused", [] {
  const auto outside = [] {
    check::launch(
        {1, 32}, +[] {
          if (threadIdx.x < 4) {
            __shfl_xor_sync(0xfu, 1, 8);
          }
        });
  };
  check::refused(outside, {"reads the value of lane", "test_simulated_shuffles.cpp:"});
  const auto finished = [] {
    check::launch(
        {1, 32}, +[] {
          if (threadIdx.x != 7) {
            __shfl_xor_sync(kAll, 1, 1);
          }
        });
  };
  check::refused(finished, {"lane 6 of warp 0 reads the value of lane 7"});
});

const bool apart = check::add("lanes that shuffle in different places are refused", [] {
  const auto run = [] {
    check::launch(
        {1, 32}, +[] {
          if (threadIdx.x < 16) {
            __shfl_xor_sync(kAll, 1, 1);
          } else {
            __shfl_xor_sync(kAll, 2, 1);
          }
        });
  };
  check::refused(run, {"a shuffle is reached by thread 0", "but not by thread 16"});
});

}  // namespace
}  // namespace equigeo
