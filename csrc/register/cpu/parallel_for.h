// The threads that rows are divided among.
#pragma once

#ifdef __SANITIZE_THREAD__
#include <thread>
#else
#include <torch/csrc/stable/ops.h>
#endif

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace equigeo {

// Multiply-adds that are worth a thread, about 100 us of an average kernel: on a busy machine a
// call waits longer than that for a thread that is not scheduled. Tests divide less.
extern std::atomic<double> work_per_thread;

// Call run(first, last) for parts of [0, count), on the threads of PyTorch that `work` in all is
// worth. `run` raises nothing.
//
// The thread sanitizer does not see how those wait for each other, since PyTorch is not built with
// it, and would report every result. Under it there are two threads of our own.
template <class Run>
void parallel_for(int64_t count, [[maybe_unused]] double work, const Run& run) {
#ifdef __SANITIZE_THREAD__
  std::thread other([&] { run(count / 2, count); });
  run(0, count / 2);
  other.join();
#else
  const double threads = std::clamp(work / work_per_thread, 1.0, std::max(1.0, 1.0 * count));
  const int64_t parts = static_cast<int64_t>(threads);
  torch::stable::parallel_for(0, count, (count + parts - 1) / parts, run);
#endif
}

}  // namespace equigeo
