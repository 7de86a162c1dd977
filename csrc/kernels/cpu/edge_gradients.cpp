// Compiled once per instruction set: no torch, no C++ standard headers.
#include "kernels/cpu/edge_gradients.h"

#include "math/edge_matrix.h"

namespace equigeo {
namespace {

// Not inlined into the switch, where all would save the registers of the largest.
#define EQUIGEO_APART __attribute__((noinline))

template <class T>
struct TransposedChannels {
  const Transpose<T>& given;

  template <int D1>
  EQUIGEO_APART void with() const {
    const Transpose<T> op = given;  // that no store reaches
    constexpr int kW = kWidth<WidePack<T>, T>;
    constexpr int kN = kManyNarrow ? (D1 <= 5 ? 4 : 2) : D1 <= 7 ? 2 : 1;
    int64_t u = 0;
    for (; u + kN * kW <= op.x.stride; u += kN * kW) {
      channels<D1, kN>(op, u);
    }
    for (; u < op.x.stride; u += kW) {
      channels<D1, 1>(op, u);
    }
  }

  template <int D1, int N>
  static EQUIGEO_HOST_DEVICE void channels(const Transpose<T>& op, int64_t u) {
    transpose_matrix<WidePack<T>, D1, N, kWidth<WidePack<T>, T>>(
        op.matrix, op.d3, op.grad.data + u, op.grad.stride, op.x.data + u,
        op.weight ? op.weight + u : nullptr, op.x.stride, op.grad_x ? op.grad_x + u : nullptr,
        op.grad_weight ? op.grad_weight + u : nullptr, op.weighted ? op.weighted + u : nullptr,
        op.add);
  }
};

template <class T>
struct MatrixGradient {
  const OuterProduct<T>& given;

  template <int D1>
  EQUIGEO_APART void with() const {
    const OuterProduct<T> op = given;
    // As many sums as registers hold: a single one would wait for itself.
    constexpr int kSums = kRegisters == 32 ? 24 : 11;
    constexpr int kRows = kSums / D1 > 7 ? 7 : kSums / D1 > 1 ? kSums / D1 : 1;
    int64_t k = 0;
    for (; k + kRows <= op.d3; k += kRows) {
      rows<D1, kRows>(op, k);
    }
    rest<D1, kRows - 1>(op, k);
  }

  // The last rows, fewer than K + 1.
  template <int D1, int K>
  static EQUIGEO_HOST_DEVICE void rest(const OuterProduct<T>& op, int64_t k) {
    if constexpr (K > 0) {
      if (k + K == op.d3) {
        rows<D1, K>(op, k);
      } else {
        rest<D1, K - 1>(op, k);
      }
    }
  }

  template <int D1, int K>
  static EQUIGEO_HOST_DEVICE void rows(const OuterProduct<T>& op, int64_t k) {
    constexpr int kW = kWidth<WidePack<T>, T>;
    matrix_gradient<WidePack<T>, D1, K>(
        op.grad.data + k * op.grad.stride, op.grad.stride, op.weighted.data, op.weighted.stride,
        op.weighted.stride, op.gradient + k * D1 * kW, op.add);
  }
};

#undef EQUIGEO_APART

}  // namespace

void EQUIGEO_FOR_ISA(transpose_channels)(int64_t d1, const Transpose<float>& op) {
  for_components(d1, TransposedChannels<float>{op});
}
void EQUIGEO_FOR_ISA(transpose_channels)(int64_t d1, const Transpose<double>& op) {
  for_components(d1, TransposedChannels<double>{op});
}
void EQUIGEO_FOR_ISA(outer_product)(int64_t d1, const OuterProduct<float>& op) {
  for_components(d1, MatrixGradient<float>{op});
}
void EQUIGEO_FOR_ISA(outer_product)(int64_t d1, const OuterProduct<double>& op) {
  for_components(d1, MatrixGradient<double>{op});
}

}  // namespace equigeo
