// The arguments that describe polynomials, checked.
#pragma once

#include <algorithm>
#include <vector>

#include "ops/symmetric_contraction.h"
#include "ops/tensors.h"

namespace equigeo {

static_assert(
    sizeof(Product) == 2 * sizeof(int64_t) && sizeof(Polynomial) == 4 * sizeof(int64_t) &&
    sizeof(Group) == 3 * sizeof(int64_t));

inline RowLayout row_layout(const char* name, const std::vector<int64_t>& dims) {
  RowLayout layout{};
  STD_TORCH_CHECK(
      dims.size() <= RowLayout::kMost, name, " has more than ", RowLayout::kMost, " blocks");
  for (const int64_t dim : dims) {
    STD_TORCH_CHECK(
        0 < dim && dim < (1 << 15), name, " must hold positive 16-bit numbers, got ", dim);
    layout.all = layout.blocks == 0 || layout.all == dim ? dim : 0;
    layout.dim[layout.blocks++] = static_cast<int16_t>(dim);
    layout.components += dim;
  }
  return layout;
}

struct PolynomialTable {
  Tensor products, polynomials, groups, nodes, values;
  RowLayout in, out;

  PolynomialTable(
      const Tensor& like,
      const Tensor& products_given,
      const Tensor& polynomials_given,
      const Tensor& groups_given,
      const Tensor& nodes_given,
      const Tensor& values_given,
      const std::vector<int64_t>& dims_in,
      const std::vector<int64_t>& dims_out)
      : products(rows_of("products", products_given, like, 2)),
        polynomials(rows_of("polynomials", polynomials_given, like, 4)),
        groups(rows_of("groups", groups_given, like, 3)),
        nodes(checked_index("nodes", nodes_given, like, nodes_given.numel())),
        values(checked("values", values_given, like, like.scalar_type(), {nodes.numel()})),
        in(row_layout("dims_in", dims_in)),
        out(row_layout("dims_out", dims_out)) {}

  template <class T>
  Polynomials<T> view(int64_t weights) const {
    Polynomials<T> table{};
    table.product = reinterpret_cast<const Product*>(products.const_data_ptr());
    table.polynomial = reinterpret_cast<const Polynomial*>(polynomials.const_data_ptr());
    table.group = reinterpret_cast<const Group*>(groups.const_data_ptr());
    table.node = read<int64_t>(nodes);
    table.value = read<T>(values);
    table.products = products.size(0);
    table.polynomials = polynomials.size(0);
    table.variables = in.components;
    table.weights = weights;
    table.components = out.components;
    table.nodes = 1 + table.variables + table.products;
    return table;
  }

  // Multiply-adds of one channel.
  int64_t work() const {
    return products.size(0) + polynomials.size(0) + groups.size(0) + nodes.size(0);
  }

 private:
  static Tensor rows_of(
      const char* name, const Tensor& tensor, const Tensor& like, int64_t columns) {
    const int64_t rows = tensor.dim() > 0 ? tensor.size(0) : 0;
    return checked(name, tensor, like, ScalarType::Long, {rows, columns});
  }
};

// Every number of a table that the host can read: kernels then stay inside their arrays.
template <class T>
void check_table(const Polynomials<T>& table, const PolynomialTable& tensors) {
  const int64_t groups = tensors.groups.size(0), terms = tensors.nodes.size(0);
  for (int64_t s = 0; s < table.products; ++s) {
    const Product product = table.product[s];
    const int64_t before = 1 + table.variables + s;
    STD_TORCH_CHECK(
        0 <= product.left && product.left < before && 0 <= product.right && product.right < before,
        "product ", s, " is not one of nodes before it");
  }
  int64_t component = 0;
  for (int64_t p = 0; p < table.polynomials; ++p) {
    const Polynomial polynomial = table.polynomial[p];
    STD_TORCH_CHECK(
        component <= polynomial.component && polynomial.component < table.components,
        "polynomials must be sorted by component and lead to one that exists");
    component = polynomial.component;
    STD_TORCH_CHECK(
        0 <= polynomial.weight && polynomial.weight < table.weights, "polynomial ", p,
        " has a weight that does not exist");
    STD_TORCH_CHECK(
        0 <= polynomial.first && polynomial.last <= groups, "polynomial ", p,
        " has groups that do not exist");
  }
  for (int64_t g = 0; g < groups; ++g) {
    const Group group = table.group[g];
    STD_TORCH_CHECK(
        0 <= group.first && group.last <= terms && 0 <= group.node && group.node < table.nodes,
        "group ", g, " has terms or a node that do not exist");
  }
  const auto outside = [&](int64_t node) { return node < 0 || node >= table.nodes; };
  STD_TORCH_CHECK(
      std::none_of(table.node, table.node + terms, outside),
      "a term has a node that does not exist");
}

// What contractions and their gradients have in common.
struct Contracted {
  Tensor x, weight;
  PolynomialTable table;
  int64_t rows, sets, weights, channels;

  Contracted(const Tensor& x_given, const Tensor& weight_given, const PolynomialTable& table_given)
      : x(x_given), weight(weight_given), table(table_given) {
    STD_TORCH_CHECK(x.dim() == 2, "x must be (rows, components)");
    STD_TORCH_CHECK(weight.dim() == 3, "weight must be (sets, weights, channels)");
    rows = x.size(0);
    sets = weight.size(0);
    weights = weight.size(1);
    channels = weight.size(2);
    STD_TORCH_CHECK(sets > 0 || rows == 0, "there must be no rows where there are no weights");
    x = as_x("x", x);
    weight = as_weight("weight", weight);
  }

  Tensor as_x(const char* name, const Tensor& tensor) const {
    return checked(name, tensor, x, x.scalar_type(), {rows, channels * table.in.components});
  }
  Tensor as_weight(const char* name, const Tensor& tensor) const {
    return checked(name, tensor, x, x.scalar_type(), {sets, weights, channels});
  }
  Tensor as_grad(const char* name, const Tensor& tensor) const {
    return checked(name, tensor, x, x.scalar_type(), {rows, channels * table.out.components});
  }

  // Fill in what the arguments of all ops begin with.
  template <class T, class Op>
  void view(Op& op) const {
    op.table = table.view<T>(weights);
    op.in = table.in;
    op.out = table.out;
    op.rows = rows;
    op.sets = sets;
    op.channels = channels;
    op.x = read<T>(x);
    op.weight = read<T>(weight);
#ifndef EQUIGEO_CUDA
    check_table(op.table, table);
#endif
  }
};

}  // namespace equigeo
