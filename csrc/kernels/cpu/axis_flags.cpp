// Compiled once per instruction set: no torch, no C++ standard headers.
#include "kernels/cpu/kernels.h"

#include "kernels/cpu/pack.h"
#include "math/axis_flags.h"

namespace equigeo {
namespace {

template <class T>
int judge_clouds(const AxisFlags<T>& op, int64_t begin, int64_t end) {
  int64_t broken = 0, flagged = 0;
  for (int64_t cloud = begin; cloud < end; ++cloud) {
    const JudgedCloud<T> judged(op, cloud);
    flagged += judged.judge();
    broken += !judged.finite();
  }
  // Sums of integers are the same in any order.
  __atomic_fetch_add(op.counts, broken, __ATOMIC_RELAXED);
  __atomic_fetch_add(op.counts + 1, flagged, __ATOMIC_RELAXED);
  return 0;
}

}  // namespace

const Kernels<AxisFlags> EQUIGEO_FOR_ISA(axis_flags_clouds) = {
    judge_clouds<float>, judge_clouds<double>};

}  // namespace equigeo
