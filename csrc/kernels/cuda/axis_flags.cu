#include "args/axis_flags.h"

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launch.h"
#include "math/axis_flags.h"

namespace equigeo {
namespace {

// Sums of integers are the same in any order.
__device__ void count(int64_t* sum) { atomicAdd(reinterpret_cast<unsigned long long*>(sum), 1ull); }

// One thread per cloud.
template <class T>
__global__ void judge_clouds(AxisFlags<T> op) {
  for (int64_t cloud = first_item(); cloud < op.clouds; cloud += item_stride()) {
    const JudgedCloud<T> judged(op, cloud);
    if (judged.judge()) {
      count(op.counts + 1);
    }
    if (!judged.finite()) {
      count(op.counts);
    }
  }
}

template <class T>
const char* run(const AxisFlags<T>& op, void*, void* stream) {
  launch_threads(judge_clouds<T>, op.clouds, stream, op);
  return launch_error();
}

}  // namespace

EQUIGEO_DEFINE_LAUNCHES(AxisFlags)

}  // namespace equigeo
