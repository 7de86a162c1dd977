// Arguments of the ops, for any device: contiguous arrays whose sizes have been checked.
#pragma once

#include "args/graph.h"

namespace equigeo {

constexpr int64_t kMostOrders = 12;     // of degree 10, and one beyond for torques
constexpr int64_t kMatrixPadding = 32;  // columns of a packed matrix are a multiple of these

// Columns of a packed matrix.
inline int64_t padded_width(int64_t columns) {
  return (columns + kMatrixPadding - 1) / kMatrixPadding * kMatrixPadding;
}

// Copies of one irrep.
struct SO2Term {
  int64_t mul, l;
  bool swapped;                 // components +m and -m are the parts of a number times i
  int64_t offset;               // in a row
  int64_t column[kMostOrders];  // among the copies of degree at least m
};

struct SO2Plan {
  const SO2Term *in, *out;
  int64_t terms_in, terms_out, dim_in, dim_out, lmax, mmax;
  bool complex_weights, by_order;
  int64_t width_in[kMostOrders], width_out[kMostOrders];  // copies of degree at least m
  int64_t weight[kMostOrders];                            // where matrices of an order begin
  int64_t forward[kMostOrders], adjoint[kMostOrders];     // and packed ones
  int64_t scale[kMostOrders];                             // where its modulation begins
  int64_t weight_numel, forward_numel, adjoint_numel, scale_numel;
  int64_t tile;  // edges that are mixed together on the CPU
};

// Packed matrices of an order: one, or the three of a complex product.
inline int64_t matrices_of(const SO2Plan& plan, int64_t order) {
  return plan.complex_weights && order > 0 ? 3 : 1;
}

// Modulation is that of each edge, or a linear map of its numbers.
template <class T>
struct SO2Modulation {
  const T* scale;   // (edges, numbers) or null
  const T* radial;  // (numbers, scale_numel), or null: numbers are then the modulation
  int64_t numbers;
};

template <class T>
struct SO2Conv : Graph {
  SO2Plan plan;
  const T* x;        // (sources, dim_in)
  const T* vectors;  // (edges, 3)
  const T* weight;   // (weight_numel,)
  const T* bias;     // (width_out[0],) or null
  SO2Modulation<T> modulation;
  const T* envelope;  // (edges,) or null
  T* out;             // (targets, dim_out)
};

template <class T>
struct SO2ConvBackward : Graph {
  SO2Plan plan;
  const T* grad;     // (targets, dim_out)
  const T* x;        // (sources, dim_in)
  const T* vectors;  // (edges, 3)
  const T* weight;   // (weight_numel,)
  const T* bias;     // (width_out[0],) or null
  SO2Modulation<T> modulation;
  const T* envelope;  // (edges,) or null
  bool of_vectors, of_weights;
  T* grad_x;         // (sources, dim_in)
  T* grad_vectors;   // (edges, 3)
  T* grad_scale;     // (edges, numbers) or null
  T* grad_envelope;  // (edges,) or null
  T* grad_weight;    // (weight_numel,) zero, as the next two, where of_weights is not
  T* grad_bias;      // (width_out[0],) or null
  T* grad_radial;    // (numbers, scale_numel) or null
};

}  // namespace equigeo
