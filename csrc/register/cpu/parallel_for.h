// The threads that rows are divided among.
#pragma once

#ifdef __SANITIZE_THREAD__
#include <thread>
#else
#include <torch/csrc/stable/ops.h>
#endif

#include <cstdint>

namespace equigeo {

// Call run(first, last) for parts of [0, count), on the threads of PyTorch. `run` raises nothing.
//
// The thread sanitizer does not see how those wait for each other, since PyTorch is not built with
// it, and would report every result. Under it there are two threads of our own.
template <class Run>
void parallel_for(int64_t count, const Run& run) {
#ifdef __SANITIZE_THREAD__
  std::thread other([&] { run(count / 2, count); });
  run(0, count / 2);
  other.join();
#else
  torch::stable::parallel_for(0, count, 2, run);
#endif
}

}  // namespace equigeo
