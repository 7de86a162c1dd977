// Kernels over rows, on the threads of PyTorch.
#pragma once

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <atomic>
#include <type_traits>

#include "kernels/cpu/isa.h"

namespace equigeo {

// Offsets must start at 0, never fall and end at the number of edges: kernels then stay inside
// their arrays whatever the offsets are.
inline void check_offsets(const char* name, const int64_t* ptr, int64_t rows, int64_t edges) {
  bool rising = true;
  for (int64_t row = 0; row < rows; ++row) {
    rising &= ptr[row] <= ptr[row + 1];
  }
  STD_TORCH_CHECK(
      rising && ptr[0] == 0 && ptr[rows] == edges, name, " must start at 0, never fall and end at ",
      edges);
}

// Run a kernel over all rows. The rows of a chunk depend on the problem alone, never on the number
// of threads, so results have the same bits for any number. `work` is multiply-adds in all; a chunk
// has at least `least` rows.
template <template <class> class Op, class S>
void run_rows(
    const Kernels<Op>& kernels, const Op<S>& op, int64_t rows, int64_t work, int64_t least = 1) {
  constexpr int64_t kChunkWork = 1 << 15;
  const int64_t per_row = std::max<int64_t>(1, work / std::max<int64_t>(1, rows));
  const int64_t chunk = std::max<int64_t>(least, kChunkWork / per_row);
  std::atomic<int> failure{0};
  torch::stable::parallel_for(0, (rows + chunk - 1) / chunk, 2, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t begin = i * chunk, end = std::min(rows, begin + chunk);
      int status;
      if constexpr (std::is_same_v<S, float>) {
        status = kernels.f32(op, begin, end);
      } else if constexpr (std::is_same_v<S, Bf16>) {
        status = kernels.bf16(op, begin, end);
      } else {
        status = kernels.f64(op, begin, end);
      }
      if (status != 0) {
        failure = status;
      }
    }
  });
  STD_TORCH_CHECK(failure != kStrayIndex, "an index is out of range");
  STD_TORCH_CHECK(failure == 0, "out of memory");
}

}  // namespace equigeo
