// The matrices of a block of edges, from their second inputs.
#pragma once

#include "kernels/cpu/channelwise_plan.h"
#include "kernels/cpu/pack.h"
#include "kernels/cpu/scratch.h"
#include "math/edge_matrix.h"

namespace equigeo {
namespace {

// Position of component j of copy v of the second input of a path: `first + j * step`.
struct Second {
  int64_t first, step;
};

EQUIGEO_HOST_DEVICE Second second_input(const Path& path, bool ir_mul, int64_t v) {
  return ir_mul ? Second{path.y.offset + v, path.y.mul} : Second{path.y.offset + v * path.y.d, 1};
}

// The matrices of all paths for a block of edges, one edge to a lane.
template <class T>
class EdgeMatrices {
 public:
  static constexpr int64_t kEdges = kWidth<WidePack<T>, T>;

  EdgeMatrices(const ChannelwisePlan<T>& plan, Scratch<T>& scratch)
      : plan_(plan),
        second_(scratch.take(plan.dim_y * kEdges)),
        matrices_(scratch.take(plan.matrices * kEdges)) {}

  static int64_t size(const ChannelwisePlan<T>& plan) {
    return Scratch<T>::round_up(plan.dim_y * kEdges) + Scratch<T>::round_up(plan.matrices * kEdges);
  }

  // Row `lane` of the block; missing lanes keep what they have.
  void load(int64_t lane, const T* y) {
    for (int64_t j = 0; j < plan_.dim_y; ++j) {
      second_[j * kEdges + lane] = y[j];
    }
  }

  void compute() {
    for (int64_t p = 0; p < plan_.count; ++p) {
      const Path& path = plan_.path[p];
      for (int64_t v = 0; v < path.y.mul; ++v) {
        const Second second = second_input(path, plan_.ir_mul, v);
        edge_matrix<WidePack<T>>(
            plan_, path, second_ + second.first * kEdges, second.step, matrix(p, v));
      }
    }
  }

  // Its numbers for one lane are kEdges apart.
  T* matrix(int64_t p, int64_t v) const {
    const Path& path = plan_.path[p];
    return matrices_ + (plan_.layout[p].matrix + v * path.x.d * path.out.d) * kEdges;
  }

 private:
  const ChannelwisePlan<T>& plan_;
  T* second_;
  T* matrices_;
};

}  // namespace
}  // namespace equigeo
