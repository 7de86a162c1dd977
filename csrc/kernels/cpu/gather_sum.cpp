// Compiled once per instruction set: no torch, no C++ standard headers.
#include "kernels/cpu/kernels.h"

#include "kernels/cpu/gather_channels.h"

namespace equigeo {
namespace {

template <class T>
int sum_rows(const GatherSum<T>& op, int64_t begin, int64_t end) {
  int stray = 0;
  const PlainEdges<T> edges{{op.index, op.rows, &stray}};
  for (int64_t t = begin; t < end; ++t) {
    T* out = op.out + t * op.channels;
    gather_channels(edges, edges_of(op.ptr, t), op.x, op.channels, out, op.channels);
  }
  return stray;
}

}  // namespace

const Kernels<GatherSum> EQUIGEO_FOR_ISA(gather_sum_rows) = {sum_rows<float>, sum_rows<double>};

}  // namespace equigeo
