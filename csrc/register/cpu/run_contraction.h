// Running symmetric contractions and their gradients on the CPU.
#pragma once

#include <algorithm>

#include "kernels/cpu/kernels.h"
#include "register/cpu/run_rows.h"
#include "register/tensors.h"

namespace equigeo {

// Every number of a table that the host can read: kernels then stay inside their arrays.
template <class T>
void check_table(const Polynomials<T>& table) {
  for (int64_t s = 0; s < table.products; ++s) {
    const Product product = table.product[s];
    const int64_t before = 1 + table.variables + s;
    EQUIGEO_CHECK(
        0 <= product.left && product.left < before && 0 <= product.right && product.right < before,
        "product ", s, " is not one of nodes before it");
  }
  int64_t component = 0;
  for (int64_t p = 0; p < table.polynomials; ++p) {
    const Polynomial polynomial = table.polynomial[p];
    EQUIGEO_CHECK(
        component <= polynomial.component && polynomial.component < table.components,
        "polynomials must be sorted by component and lead to one that exists");
    component = polynomial.component;
    EQUIGEO_CHECK(
        0 <= polynomial.weight && polynomial.weight < table.weights, "polynomial ", p,
        " has a weight that does not exist");
    EQUIGEO_CHECK(
        0 <= polynomial.first && polynomial.last <= table.groups, "polynomial ", p,
        " has groups that do not exist");
  }
  for (int64_t g = 0; g < table.groups; ++g) {
    const Group group = table.group[g];
    EQUIGEO_CHECK(
        0 <= group.first && group.last <= table.terms && 0 <= group.node &&
            group.node < table.nodes,
        "group ", g, " has terms or a node that do not exist");
  }
  const auto outside = [&](int64_t node) { return node < 0 || node >= table.nodes; };
  EQUIGEO_CHECK(
      std::none_of(table.node, table.node + table.terms, outside),
      "a term has a node that does not exist");
}

// Multiply-adds of one channel.
template <class T>
double work_per_channel(const Polynomials<T>& table) {
  return table.products + table.polynomials + table.groups + table.terms;
}

template <class T>
void run(const SymmetricContraction<T>& op, const Tensor&) {
  check_table(op.table);
  if (op.channels == 0) {  // arrays without elements may be null
    return;
  }
  const double work = 1.0 * op.rows * op.channels * work_per_channel(op.table);
  run_rows(EQUIGEO_SELECT_KERNELS(symmetric_contraction_rows), op, op.rows, work);
}

template <class T>
void run(const SymmetricContractionGradients<T>& op, const Tensor&) {
  check_table(op.table);
  check_offsets("ptr", op.ptr, op.sets, op.rows);
  if (op.channels == 0) {
    return;
  }
  const double work = 3.0 * op.rows * op.channels * work_per_channel(op.table);
  run_rows(EQUIGEO_SELECT_KERNELS(symmetric_contraction_runs), op, op.runs, work);
  if (!op.only_x) {
    const int64_t sums = op.sets * op.table.weights;
    run_rows(
        EQUIGEO_SELECT_KERNELS(symmetric_contraction_sums), op, sums,
        1.0 * op.runs * op.table.weights * op.channels);
  }
}

}  // namespace equigeo
