// Kernels over rows, in chunks.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <type_traits>

#include "kernels/cpu/isa.h"
#include "register/check.h"
#include "register/cpu/parallel_for.h"

namespace equigeo {

// Offsets must start at 0, never fall and end at the number of edges: kernels then stay inside
// their arrays whatever the offsets are.
inline void check_offsets(const char* name, const int64_t* ptr, int64_t rows, int64_t edges) {
  bool rising = true;
  for (int64_t row = 0; row < rows; ++row) {
    rising &= ptr[row] <= ptr[row + 1];
  }
  EQUIGEO_CHECK(
      rising && ptr[0] == 0 && ptr[rows] == edges, name, " must start at 0, never fall and end at ",
      edges);
}

// Run a kernel over all rows. The rows of a chunk depend on the problem alone, never on the number
// of threads, so results have the same bits for any number. `work` is multiply-adds in all, which a
// table can claim more of than integers can count; a chunk has at least `least` rows.
template <template <class> class Op, class S>
void run_rows(
    const Kernels<Op>& kernels, const Op<S>& op, int64_t rows, double work, int64_t least = 1) {
  constexpr double kChunkWork = 1 << 15;
  const double per_row = std::max(1.0, std::floor(work / std::max<int64_t>(1, rows)));
  const int64_t chunk = std::max(least, static_cast<int64_t>(kChunkWork / per_row));
  std::atomic<int> failure{0};
  parallel_for((rows + chunk - 1) / chunk, work, [&](int64_t first, int64_t last) {
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
  EQUIGEO_CHECK(failure != kStrayIndex, "an index is out of range");
  EQUIGEO_CHECK(failure == 0, "out of memory");
}

}  // namespace equigeo
