// What gradients of single edges are made of, a warp for each edge of a chunk.
#pragma once

#include "kernels/cuda/so2_turn.cuh"
#include "kernels/cuda/sum_lanes.cuh"

namespace equigeo {
namespace {

constexpr int kEdgeWarps = 8;

template <class Op>
void launch_edges(void (*kernel)(const Op), const Op& op, void* stream) {
  const int64_t blocks = (op.edges.count + kEdgeWarps - 1) / kEdgeWarps;
  launch_kernel(kernel, grid_of(blocks), dim3(kWarp, kEdgeWarps), 0, stream, op);
}

__device__ inline int64_t first_edge() {
  return static_cast<int64_t>(blockIdx.x) * kEdgeWarps + threadIdx.y;
}

__device__ inline int64_t edge_stride() { return static_cast<int64_t>(gridDim.x) * kEdgeWarps; }

// The message of each edge without its factor, the gradient of that factor, and the gradient that
// arrives times the factor.
template <class T>
struct WeighEdges {
  SO2Plan plan;
  EdgeChunk<T> edges;
  int64_t top;  // of what arrives
  Orders<T> arriving;
  bool messages;  // they are known
  Orders<T> mixed;
  const T* bias;
  T* grad_envelope;  // (edges,) or null
};

template <class T>
__global__ void __launch_bounds__(kWarp* kEdgeWarps)
    weigh_edges(const __grid_constant__ WeighEdges<T> op) {
#pragma unroll 1
  for (int64_t e = first_edge(); e < op.edges.count; e += edge_stride()) {
    const T factor = op.edges.factor[e];
    T total[1] = {0};
#pragma unroll 1
    for (int64_t m = 0; m <= op.top; ++m) {
      const int64_t width = op.plan.width_out[m];
#pragma unroll 1
      for (int64_t part = 0; part <= (m > 0); ++part) {
        T* arriving = op.arriving.row(m, part, e);
        const bool known = op.messages && m <= op.plan.mmax;
        T* mixed = known ? op.mixed.row(m, part, e) : nullptr;
#pragma unroll 1
        for (int64_t c = threadIdx.x; c < width; c += kWarp) {
          if (known) {
            T value = mixed[c];
            if (m == 0 && op.bias != nullptr) {
              value += op.bias[c];
              mixed[c] = value;
            }
            total[0] += arriving[c] * value;
          }
          arriving[c] *= factor;
        }
      }
    }
    sum_lanes<1>(total);
    if (op.grad_envelope != nullptr && threadIdx.x == 0) {
      op.grad_envelope[op.edges.own[e]] = op.edges.inverse[e] == 0 ? T(0) : total[0];
    }
  }
}

// The gradient of the modulation of each edge, of its features before that, and of the edge.
template <class T>
struct DifferentiateEdges {
  const SO2Tables<T>* tables;
  SO2Plan plan;
  EdgeChunk<T> edges;
  Factors<T> factors;
  Factors<T> slopes;  // where their gradients are written
  Orders<T> sent, pulled, arriving, mixed;
  T* grad_vectors;  // (edges, 3) or null
};

// What arrives at the features of a copy, through its factors, whose gradients are products.
template <class T>
__device__ __forceinline__ void differentiate_factors(
    const DifferentiateEdges<T>& op, const SO2Term& term, int64_t e, int64_t copy) {
  const T* factors = op.factors.row(e);
  T* slopes = const_cast<T*>(op.slopes.row(e));
  const int64_t most = term.l < op.plan.mmax ? term.l : op.plan.mmax;
  T slope = 0;
#pragma unroll 1
  for (int64_t m = 0; m <= most; ++m) {
    const int64_t at = scale_of(op.plan, term, m) + copy;
    const T factor = factors[at];
#pragma unroll 1
    for (int64_t part = 0; part <= (m > 0); ++part) {
      T* pulled = op.pulled.row(m, part, e) + term.column[m] + copy;
      slope += *pulled * op.sent.row(m, part, e)[term.column[m] + copy];
      *pulled *= factor;
    }
    if (op.plan.by_order || m == most) {
      slopes[at] = slope;
      slope = 0;
    }
  }
}

// Torques of the copies of a lane, of all terms of a side.
template <class T>
__device__ __forceinline__ void add_torques(
    const DifferentiateEdges<T>& op,
    const SO2Term* terms,
    int64_t count,
    const Orders<T>& wide,
    const Orders<T>& narrow,
    int64_t e,
    TorqueSums<T>& sums) {
#pragma unroll 1
  for (int64_t n = 0; n < count; ++n) {
    const SO2Term& term = terms[n];
#pragma unroll 1
    for (int64_t c = threadIdx.x; c < term.mul && term.l > 0; c += kWarp) {
      const auto at = [&](const Orders<T>& orders, int64_t m) {
        const Component<T> component = component_of(orders, term, m, e);
        return component.sign * component.at[c];
      };
      add_torque(
          op.tables->torque[term.l], term.l, op.plan.mmax, [&](int64_t m) { return at(wide, m); },
          [&](int64_t m) { return at(narrow, m); }, sums);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kWarp* kEdgeWarps)
    differentiate_edges(const __grid_constant__ DifferentiateEdges<T> op) {
#pragma unroll 1
  for (int64_t e = first_edge(); e < op.edges.count; e += edge_stride()) {
    // A lane has the same copies here and below.
#pragma unroll 1
    for (int64_t n = 0; n < op.plan.terms_in && op.factors.at != nullptr; ++n) {
      const SO2Term& term = op.plan.in[n];
#pragma unroll 1
      for (int64_t c = threadIdx.x; c < term.mul; c += kWarp) {
        differentiate_factors(op, term, e, c);
      }
    }
    if (op.grad_vectors == nullptr) {
      continue;
    }
    TorqueSums<T> sums{};
    add_torques(op, op.plan.out, op.plan.terms_out, op.arriving, op.mixed, e, sums);
    add_torques(op, op.plan.in, op.plan.terms_in, op.sent, op.pulled, e, sums);
    T both[2] = {sums.x, sums.z};
    sum_lanes<2>(both);
    const T about_x = __shfl_sync(0xffffffffu, both[0], 0);
    const T about_z = __shfl_sync(0xffffffffu, both[0], 1);
    const T* r = op.edges.vectors + 3 * op.edges.own[e];
    double frame[9];
    edge_frame(r[0], r[1], r[2], frame);
    const int k = threadIdx.x;
    if (k < 3) {
      const T first = static_cast<T>(k == 0 ? frame[0] : k == 1 ? frame[1] : frame[2]);
      const T third = static_cast<T>(k == 0 ? frame[6] : k == 1 ? frame[7] : frame[8]);
      const T slope = (about_x * third - about_z * first) * op.edges.inverse[e];
      op.grad_vectors[3 * op.edges.own[e] + k] = op.plan.lmax == 0 ? T(0) : slope;
    }
  }
}

}  // namespace
}  // namespace equigeo
