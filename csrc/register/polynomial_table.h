// The arguments that describe polynomials, checked.
#pragma once

#include <vector>

#include "args/symmetric_contraction.h"
#include "register/tensors.h"

namespace equigeo {

static_assert(
    sizeof(Product) == 2 * sizeof(int64_t) && sizeof(Polynomial) == 4 * sizeof(int64_t) &&
    sizeof(Group) == 3 * sizeof(int64_t));

inline RowLayout row_layout(const char* name, const std::vector<int64_t>& dims) {
  RowLayout layout{};
  EQUIGEO_CHECK(
      dims.size() <= RowLayout::kMost, name, " has more than ", RowLayout::kMost, " blocks");
  for (const int64_t dim : dims) {
    EQUIGEO_CHECK(
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
    table.groups = groups.size(0);
    table.terms = nodes.size(0);
    table.variables = in.components;
    table.weights = weights;
    table.components = out.components;
    table.nodes = 1 + table.variables + table.products;
    return table;
  }

 private:
  static Tensor rows_of(
      const char* name, const Tensor& tensor, const Tensor& like, int64_t columns) {
    const int64_t rows = tensor.dim() > 0 ? tensor.size(0) : 0;
    return checked(name, tensor, like, ScalarType::Long, {rows, columns});
  }
};

// What contractions and their gradients have in common.
struct Contracted {
  Tensor x, weight;
  PolynomialTable table;
  int64_t rows, sets, weights, channels;

  Contracted(const Tensor& x_given, const Tensor& weight_given, const PolynomialTable& table_given)
      : x(x_given), weight(weight_given), table(table_given) {
    EQUIGEO_CHECK(x.dim() == 2, "x must be (rows, components)");
    EQUIGEO_CHECK(weight.dim() == 3, "weight must be (sets, weights, channels)");
    rows = x.size(0);
    sets = weight.size(0);
    weights = weight.size(1);
    channels = weight.size(2);
    EQUIGEO_CHECK(sets > 0 || rows == 0, "there must be no rows where there are no weights");
    check_components("the channels of weight", channels);
    check_components("the columns of x", channels * table.in.components);
    check_components("the columns of the output", channels * table.out.components);
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
  }
};

}  // namespace equigeo
