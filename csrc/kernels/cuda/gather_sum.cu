#include "args/segments.h"

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launch.h"
#include "math/gather_sum.h"

namespace equigeo {
namespace {

// One thread per channel: neighbouring threads read neighbouring channels of the same rows.
template <class T>
__global__ void sum_rows(GatherSum<T> op) {
  const PlainEdges<T> edges{{op.index, op.rows, nullptr}};
  for (int64_t i = first_item(); i < op.segments * op.channels; i += item_stride()) {
    const int64_t t = i / op.channels, c = i % op.channels;
    gather_sum<T, 1>(edges, edges_of(op.ptr, t), op.x + c, op.channels, op.out + i);
  }
}

template <class T>
const char* run(const GatherSum<T>& op, void*, void* stream) {
  launch_threads(sum_rows<T>, op.segments * op.channels, stream, op);
  return launch_error();
}

}  // namespace

EQUIGEO_DEFINE_LAUNCHES(GatherSum)

}  // namespace equigeo
