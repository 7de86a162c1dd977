// Products by the matrices of all orders, and those that lead to gradients of weights.
#pragma once

#include "kernels/cuda/matrix_products.cuh"
#include "kernels/cuda/so2_turn.cuh"

namespace equigeo {
namespace {

// result = left right^T of one part.
template <class T>
MatrixProduct<T> product_of(
    const Operand<T>& left,
    const Operand<T>& right,
    int64_t rows,
    int64_t columns,
    int64_t depth,
    T* result,
    int64_t stride) {
  MatrixProduct<T> product{};
  product.left = left;
  product.right = right;
  product.sign = 1;
  product.rows = rows;
  product.columns = columns;
  product.depth = product.part = depth;
  product.parts = 1;
  product.result = result;
  product.stride = stride;
  return product;
}

// to = matrices from, order by order, for the first edges; or by the matrices of the adjoint map:
// those transposed, the imaginary ones with the other sign.
template <class T>
void mix_orders(
    const SO2Plan& plan,
    const T* weight,
    bool adjoint,
    const Orders<T>& from,
    const Orders<T>& to,
    int64_t edges,
    void* stream) {
  MatrixProducts<T> list{};
  for (int64_t m = 0; m <= plan.mmax; ++m) {
    const int64_t in = plan.width_in[m], out = plan.width_out[m];
    const int64_t depth = adjoint ? out : in, columns = adjoint ? in : out;
    const T* real = weight + plan.weight[m];
    for (int64_t part = 0; part <= (m > 0); ++part) {
      const Operand<T> left{{from.row(m, part, 0), from.stride[m], nullptr}, false};
      const Operand<T> right{{real, in, nullptr}, adjoint};
      MatrixProduct<T> product =
          product_of(left, right, edges, columns, depth, to.row(m, part, 0), to.stride[m]);
      if (m > 0 && plan.complex_weights) {
        product.other_left = from.row(m, 1 - part, 0);
        product.other_right = real + in * out;
        product.sign = (part == 0) != adjoint ? T(-1) : T(1);
      }
      list.push(product);
    }
  }
  multiply(list, stream);
}

// factors = the numbers of each edge of a chunk times the map.
template <class T>
void map_numbers(
    const SO2Plan& plan,
    const SO2Modulation<T>& given,
    const EdgeChunk<T>& edges,
    T* factors,
    void* stream) {
  MatrixProducts<T> list{};
  list.push(
      product_of<T>(
          {{given.scale, given.numbers, edges.own}, false},
          {{given.radial, plan.scale_numel, nullptr}, true}, edges.count, plan.scale_numel,
          given.numbers, factors, plan.scale_numel));
  multiply(list, stream);
}

// Gradients of these numbers from those of the factors.
template <class T>
void map_numbers_back(
    const SO2ConvBackward<T>& op, const EdgeChunk<T>& edges, const T* slopes, void* stream) {
  const int64_t size = op.plan.scale_numel, numbers = op.modulation.numbers;
  MatrixProducts<T> list{};
  MatrixProduct<T> product = product_of<T>(
      {{slopes, size, nullptr}, false}, {{op.modulation.radial, size, nullptr}, false}, edges.count,
      numbers, size, op.grad_scale, numbers);
  product.list = edges.own;
  list.push(product);
  multiply(list, stream);
}

// Gradients of everything that all edges share, by parts of the edges of a chunk.
template <class T>
struct WeightSums {
  int64_t parts, part;               // and the edges of each
  T *weight, *bias, *radial;         // (parts, size) or null
  int64_t weights, biases, radials;  // sizes

  // Enough parts for a large GPU, of as many edges as are worth a sum.
  WeightSums(const SO2ConvBackward<T>& op, int64_t chunk, Carver& memory)
      : weights(op.plan.weight_numel),
        biases(op.bias == nullptr ? 0 : op.plan.width_out[0]),
        radials(op.modulation.radial == nullptr ? 0 : op.modulation.numbers * op.plan.scale_numel) {
    constexpr int64_t kMost = 64, kNumbers = 1 << 22;
    const int64_t size = weights + biases + radials;
    const int64_t fit = kNumbers / (size < 1 ? 1 : size);
    const int64_t wanted = chunk / kLeastOfPart < fit ? chunk / kLeastOfPart : fit;
    parts = !op.of_weights ? 0 : wanted < 1 ? 1 : wanted < kMost ? wanted : kMost;
    part = parts == 0 ? 0 : (chunk + parts - 1) / parts;
    weight = memory.take<T>(parts * weights);
    bias = memory.take<T>(parts * biases);
    radial = memory.take<T>(parts * radials);
  }

  MatrixProduct<T> sum_over_edges(
      const MatrixRows<T>& left,
      const MatrixRows<T>& right,
      int64_t rows,
      int64_t columns,
      int64_t edges,
      bool add,
      T* result,
      int64_t size) const {
    MatrixProduct<T> product =
        product_of<T>({left, true}, {right, true}, rows, columns, edges, result, columns);
    product.add = add;
    product.part = part;
    product.parts = parts;
    product.next_part = size;
    return product;
  }

  // What a chunk adds to the gradients of matrices and bias; the first one begins the sums.
  void add_orders(
      const SO2Plan& plan,
      const Orders<T>& arriving,
      const Orders<T>& sent,
      const EdgeChunk<T>& edges,
      const T* one,
      void* stream) const {
    MatrixProducts<T> list{};
    const bool add = edges.first > 0;
    for (int64_t m = 0; m <= plan.mmax; ++m) {
      const int64_t in = plan.width_in[m], out = plan.width_out[m];
      const auto left = [&](int64_t which) {
        return MatrixRows<T>{arriving.row(m, which, 0), arriving.stride[m], nullptr};
      };
      const auto right = [&](int64_t which) {
        return MatrixRows<T>{sent.row(m, which, 0), sent.stride[m], nullptr};
      };
      T* to = weight + plan.weight[m];
      MatrixProduct<T> real =
          sum_over_edges(left(0), right(0), out, in, edges.count, add, to, weights);
      if (m > 0) {
        real.other_left = left(1).at;
        real.other_right = right(1).at;
      }
      list.push(real);
      if (m > 0 && plan.complex_weights) {
        MatrixProduct<T> imaginary =
            sum_over_edges(left(1), right(0), out, in, edges.count, add, to + in * out, weights);
        imaginary.other_left = left(0).at;
        imaginary.other_right = right(1).at;
        imaginary.sign = -1;
        list.push(imaginary);
      }
    }
    list.push(sum_over_edges(
        {arriving.row(0, 0, 0), arriving.stride[0], nullptr}, {one, 0, nullptr}, biases, 1,
        edges.count, add, bias, biases));
    multiply(list, stream);
  }

  // And to that of the map of numbers.
  void add_radial(
      const SO2Plan& plan,
      const SO2Modulation<T>& given,
      const EdgeChunk<T>& edges,
      const T* slopes,
      void* stream) const {
    MatrixProducts<T> list{};
    list.push(sum_over_edges(
        {given.scale, given.numbers, edges.own}, {slopes, plan.scale_numel, nullptr}, given.numbers,
        plan.scale_numel, edges.count, edges.first > 0, radial, radials));
    multiply(list, stream);
  }
};

// The parts in their order.
template <class T>
__global__ void add_parts(const T* parts, int64_t count, int64_t size, T* total) {
  for (int64_t n = first_item(); n < size; n += item_stride()) {
    T sum = 0;
    for (int64_t part = 0; part < count; ++part) {
      sum += parts[part * size + n];
    }
    total[n] = sum;
  }
}

}  // namespace
}  // namespace equigeo
