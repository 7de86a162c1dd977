// Asynchronous copies, which are there when they were waited for.
#include <cmath>

#include "simulated.h"

namespace equigeo {
namespace {

constexpr unsigned kLanes = 32;

void copy_twice(const double* from, double* to, bool wait, int left) {
  double* shared = simulator::dynamic_shared<double>();
  double* mine = shared + 2 * threadIdx.x;
  for (int n = 0; n < 2; ++n) {
    mine[n] = -1;
    __pipeline_memcpy_async(mine + n, from + 2 * threadIdx.x + n, sizeof(double));
    __pipeline_commit();
  }
  if (wait) {
    __pipeline_wait_prior(left);
  }
  to[2 * threadIdx.x] = mine[0];
  to[2 * threadIdx.x + 1] = mine[1];
}

std::vector<double> copied(bool wait, int left) {
  const std::vector<double> from = check::normal<double>(2 * kLanes, 1);
  std::vector<double> to(2 * kLanes);
  const int64_t bytes = 2 * kLanes * sizeof(double);
  check::launch({1, kLanes, bytes}, copy_twice, from.data(), to.data(), wait, left);
  return to;
}

const bool waited = check::add("copies are there once they were waited for", [] {
  check::for_orders(
      [] { check::holds(copied(true, 0) == check::normal<double>(2 * kLanes, 1), "all of them"); });
});

const bool not_waited = check::add("copies are not made before they are waited for", [] {
  for (const double number : copied(false, 0)) {
    check::holds(std::isnan(number), "neither what was there nor what will be");
  }
});

const bool earlier = check::add("the last batches may be left out of a wait", [] {
  const std::vector<double> want = check::normal<double>(2 * kLanes, 1), got = copied(true, 1);
  for (unsigned n = 0; n < 2 * kLanes; ++n) {
    check::holds(n % 2 == 0 ? got[n] == want[n] : std::isnan(got[n]), "the first of two");
  }
});

template <int Bytes, int Offset>
void copy_bytes(const char* from) {
  __pipeline_memcpy_async(simulator::dynamic_shared<char>() + Offset, from, Bytes);
}

const bool refused = check::add("copies of other sizes, addresses and memories are refused", [] {
  alignas(16) const char from[32] = {};
  const check::Shape shape{1, 1, 64};
  check::refused(
      [&] { check::launch(shape, copy_bytes<2, 0>, &from[0]); }, {"4, 8 or 16 bytes, not of 2"});
  check::refused(
      [&] { check::launch(shape, copy_bytes<8, 4>, &from[0]); }, {"not aligned", "_copies.cpp:"});
  check::refused([&] { check::launch(shape, copy_bytes<4, 0>, &from[1]); }, {"not aligned"});
  check::refused(
      [] {
        check::launch(
            {1, 1, 64}, +[] {
              char* shared = simulator::dynamic_shared<char>();
              __pipeline_memcpy_async(shared, shared + 16, 4);
            });
      },
      {"from global to shared memory"});
});

}  // namespace
}  // namespace equigeo
