// Sums over edges: gradients of the matrices, of the bias and of the radial layer.
#pragma once

#include "kernels/cpu/so2_tile.h"

namespace equigeo {
namespace {

// The gradient of a complex matrix is a product of complex columns, and so three real ones, which
// are put together when all edges have been added.
template <class T>
class WeightSums {
 public:
  static int64_t size(const SO2PackedConvBackward<T>& op) {
    const SO2Plan& plan = op.plan;
    int64_t size = 0;
    for (int64_t m = 0; op.of_weights && m <= plan.mmax; ++m) {
      size += Scratch<T>::round_up(
          matrices_of(plan, m) * plan.width_out[m] * spread<T>(plan.width_in[m]));
      size += Scratch<T>::round_up(plan.tile * spread<T>(plan.width_in[m]));
    }
    if (op.packed.radial != nullptr) {
      size += Scratch<T>::round_up(plan.tile * spread<T>(plan.scale_numel)) +
              Scratch<T>::round_up(plan.tile * spread<T>(op.packed.numbers)) +
              Scratch<T>::round_up(op.packed.numbers * spread<T>(plan.scale_numel));
    }
    return size + Scratch<T>::round_up(plan.width_out[0]);
  }

  WeightSums(const SO2PackedConvBackward<T>& op, Scratch<T>& memory) : op_(op), plan_(op.plan) {
    for (int64_t m = 0; op.of_weights && m <= plan_.mmax; ++m) {
      sums_[m] = zeros(matrix_size(m) * matrices_of(plan_, m), memory);
      difference_[m] = zeros(plan_.tile * spread<T>(plan_.width_in[m]), memory);
    }
    if (op.packed.radial != nullptr) {
      slope_stride_ = spread<T>(plan_.scale_numel);
      hidden_stride_ = spread<T>(op.packed.numbers);
      slopes_ = zeros(plan_.tile * slope_stride_, memory);
      to_hidden_ = zeros(plan_.tile * hidden_stride_, memory);
      radial_ = zeros(op.packed.numbers * slope_stride_, memory);
    }
    bias_ = zeros(plan_.width_out[0], memory);
  }

  // Where the gradient of the modulation of an edge is written.
  T* slopes(int64_t edge, int64_t row) const {
    return op_.packed.radial == nullptr ? op_.grad_scale + row * plan_.scale_numel
                                        : slopes_ + edge * slope_stride_;
  }

  // From it, the gradient of the numbers of each edge and of their linear map.
  void add_radial(const TileModulation<T>& modulation, int64_t edges, const int64_t* rows) {
    if (op_.packed.radial == nullptr) {
      return;
    }
    const int64_t numbers = op_.packed.numbers;
    multiply_packed(
        slopes_, slope_stride_, edges, plan_.scale_numel, op_.packed.radial_adjoint, numbers,
        to_hidden_, hidden_stride_, false);
    for (int64_t e = 0; e < edges; ++e) {
      copy_row(to_hidden_ + e * hidden_stride_, numbers, op_.grad_scale + rows[e] * numbers);
    }
    if (op_.of_weights) {
      add_outer(
          modulation.hidden(), modulation.hidden_stride(), numbers, slopes_, slope_stride_,
          plan_.scale_numel, edges, radial_, slope_stride_);
    }
  }

  // Both parts of `arriving`, and their sum, have been computed.
  void add(const Orders<T>& arriving, const Orders<T>& sent, int64_t edges) {
    for (int64_t m = 0; m <= plan_.mmax; ++m) {
      const auto product = [&](int64_t left, const T* right, int64_t which) {
        add_outer(
            arriving.row(m, left, 0), arriving.stride[m], plan_.width_out[m], right, sent.stride[m],
            plan_.width_in[m], edges, sums_[m] + which * matrix_size(m),
            spread<T>(plan_.width_in[m]));
      };
      if (matrices_of(plan_, m) == 1) {
        product(0, sent.row(m, 0, 0), 0);
        if (m > 0) {
          product(1, sent.row(m, 1, 0), 0);
        }
        continue;
      }
      add_parts(sent, m, plan_.width_in[m], edges);
      subtract_parts(sent, m, edges);
      product(2, sent.row(m, 0, 0), 0);
      product(0, sent.row(m, 2, 0), 1);
      product(1, difference_[m], 2);
    }
    for (int64_t e = 0; e < edges; ++e) {
      const T* zero = arriving.row(0, 0, e);
      for (int64_t c = 0; c < plan_.width_out[0]; ++c) {
        bias_[c] += zero[c];
      }
    }
  }

  void write(int64_t part) const {
    if (!op_.of_weights) {
      return;
    }
    for (int64_t m = 0; m <= plan_.mmax; ++m) {
      const int64_t rows = plan_.width_out[m], columns = plan_.width_in[m];
      const int64_t stride = spread<T>(columns), size = matrix_size(m);
      T* to = op_.weight_parts + part * plan_.weight_numel + plan_.weight[m];
      const bool is_complex = matrices_of(plan_, m) == 3;
      for (int64_t n = 0; n < rows; ++n) {
        const T* sum = sums_[m] + n * stride;
        for (int64_t k = 0; k < columns; ++k) {
          to[n * columns + k] = is_complex ? sum[k] - sum[2 * size + k] : sum[k];
          if (is_complex) {
            to[(rows + n) * columns + k] = sum[k] - sum[size + k];
          }
        }
      }
    }
    if (op_.bias_parts != nullptr) {
      copy_row(bias_, plan_.width_out[0], op_.bias_parts + part * plan_.width_out[0]);
    }
    for (int64_t h = 0; op_.radial_parts != nullptr && h < op_.packed.numbers; ++h) {
      T* to = op_.radial_parts + (part * op_.packed.numbers + h) * plan_.scale_numel;
      copy_row(radial_ + h * slope_stride_, plan_.scale_numel, to);
    }
  }

 private:
  static T* zeros(int64_t size, Scratch<T>& memory) {
    T* found = memory.take(size);
    fill_zero(found, size);
    return found;
  }

  int64_t matrix_size(int64_t m) const { return plan_.width_out[m] * spread<T>(plan_.width_in[m]); }

  void subtract_parts(const Orders<T>& sent, int64_t m, int64_t edges) const {
    for (int64_t e = 0; e < edges; ++e) {
      const T *a = sent.row(m, 0, e), *b = sent.row(m, 1, e);
      T* to = difference_[m] + e * sent.stride[m];
      for (int64_t c = 0; c < plan_.width_in[m]; ++c) {
        to[c] = a[c] - b[c];
      }
    }
  }

  const SO2PackedConvBackward<T>& op_;
  const SO2Plan& plan_;
  T *sums_[kMostOrders] = {}, *difference_[kMostOrders] = {};
  T *slopes_ = nullptr, *to_hidden_ = nullptr, *radial_ = nullptr, *bias_ = nullptr;
  int64_t slope_stride_ = 0, hidden_stride_ = 0;
};

}  // namespace
}  // namespace equigeo
