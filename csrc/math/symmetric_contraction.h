// Weighted polynomials of the variables of one channel, and their gradients.
//
// A number is N packs of channels; with Dual packs the same code gives derivatives of everything.
// Components of rows are reached through accessors, whose load and store take a component and one
// of the N packs.
#pragma once

#include "args/symmetric_contraction.h"
#include "math/dual.h"

namespace equigeo {
namespace {

// All nodes of N packs, which are `Stride` elements apart.
template <class Pack_, int N_, int Stride, class T>
struct NodeArray {
  using Pack = Pack_;
  static constexpr int N = N_;
  T* data;

  EQUIGEO_HOST_DEVICE Pack load(int64_t node, int n) const {
    return Memory<Pack, T>::load(data + node * Stride + n * kWidth<Pack, T>);
  }
  EQUIGEO_HOST_DEVICE void store(int64_t node, int n, Pack number) const {
    Memory<Pack, T>::store(data + node * Stride + n * kWidth<Pack, T>, number);
  }
  EQUIGEO_HOST_DEVICE void add(int64_t node, int n, Pack number) const {
    Pack sum = load(node, n);
    sum += number;
    store(node, n, sum);
  }
};

// One, the variables and their products.
template <class Nodes, class T, class Variables>
EQUIGEO_HOST_DEVICE void make_nodes(
    const Polynomials<T>& table, const Variables& variables, const Nodes& nodes) {
  constexpr int N = Nodes::N;
  EQUIGEO_UNROLL
  for (int n = 0; n < N; ++n) {
    nodes.store(0, n, number<typename Nodes::Pack>(T(1)));
  }
  for (int64_t i = 0; i < table.variables; ++i) {
    EQUIGEO_UNROLL
    for (int n = 0; n < N; ++n) {
      nodes.store(1 + i, n, variables.load(i, n));
    }
  }
  for (int64_t s = 0; s < table.products; ++s) {
    const Product product = table.product[s];
    EQUIGEO_UNROLL
    for (int n = 0; n < N; ++n) {
      nodes.store(
          1 + table.variables + s, n, nodes.load(product.left, n) * nodes.load(product.right, n));
    }
  }
}

// All components of the output.
template <class Nodes, class T, class Weights, class Out>
EQUIGEO_HOST_DEVICE void contract(
    const Polynomials<T>& table, const Nodes& nodes, const Weights& weights, const Out& out) {
  constexpr int N = Nodes::N;
  using Pack = typename Nodes::Pack;
  int64_t p = 0;
  for (int64_t m = 0; m < table.components; ++m) {
    Pack sum[N] = {};
    for (; p < table.polynomials && table.polynomial[p].component == m; ++p) {
      const Polynomial polynomial = table.polynomial[p];
      Pack value[N] = {};
      for (int64_t g = polynomial.first; g < polynomial.last; ++g) {
        const Group group = table.group[g];
        Pack inner[N] = {};
        for (int64_t e = group.first; e < group.last; ++e) {
          const int64_t node = table.node[e];
          EQUIGEO_UNROLL
          for (int n = 0; n < N; ++n) {
            inner[n] += table.value[e] * nodes.load(node, n);
          }
        }
        EQUIGEO_UNROLL
        for (int n = 0; n < N; ++n) {
          value[n] += nodes.load(group.node, n) * inner[n];
        }
      }
      EQUIGEO_UNROLL
      for (int n = 0; n < N; ++n) {
        sum[n] += weights.load(polynomial.weight, n) * value[n];
      }
    }
    EQUIGEO_UNROLL
    for (int n = 0; n < N; ++n) {
      out.store(m, n, sum[n]);
    }
  }
}

// What one polynomial gives to the slopes of nodes; returns its values if `Full`.
template <bool Full, class Nodes, class T>
EQUIGEO_HOST_DEVICE void polynomial_slopes(
    const Polynomials<T>& table,
    const Polynomial& polynomial,
    const Nodes& nodes,
    const Nodes& slopes,
    const typename Nodes::Pack* weighted,
    typename Nodes::Pack* value) {
  constexpr int N = Nodes::N;
  using Pack = typename Nodes::Pack;
  for (int64_t g = polynomial.first; g < polynomial.last; ++g) {
    const Group group = table.group[g];
    Pack factor[N], slope[N], inner[N] = {};
    EQUIGEO_UNROLL
    for (int n = 0; n < N; ++n) {
      factor[n] = nodes.load(group.node, n);
      slope[n] = weighted[n] * factor[n];
    }
    for (int64_t e = group.first; e < group.last; ++e) {
      const int64_t node = table.node[e];
      EQUIGEO_UNROLL
      for (int n = 0; n < N; ++n) {
        inner[n] += table.value[e] * nodes.load(node, n);
        slopes.add(node, n, table.value[e] * slope[n]);
      }
    }
    EQUIGEO_UNROLL
    for (int n = 0; n < N; ++n) {
      slopes.add(group.node, n, weighted[n] * inner[n]);
      if (Full) {
        value[n] += factor[n] * inner[n];
      }
    }
  }
}

// Gradients with respect to nodes, to the output's factor and, added up, to weights. Slopes of
// nodes that are products go on to their factors, so that those of the variables are complete.
template <bool Full, class Nodes, class T, class Grad, class Weights, class ToGrad, class ToWeights>
EQUIGEO_HOST_DEVICE void contract_backward(
    const Polynomials<T>& table,
    const Nodes& nodes,
    const Nodes& slopes,
    const Grad& grad,
    const Weights& weights,
    const ToGrad& to_grad,
    const ToWeights& to_weights) {
  constexpr int N = Nodes::N;
  using Pack = typename Nodes::Pack;
  for (int64_t s = 0; s < table.nodes; ++s) {
    EQUIGEO_UNROLL
    for (int n = 0; n < N; ++n) {
      slopes.store(s, n, Pack{});
    }
  }
  int64_t p = 0;
  for (int64_t m = 0; m < table.components; ++m) {
    Pack sum[N] = {}, arriving[N];
    EQUIGEO_UNROLL
    for (int n = 0; n < N; ++n) {
      arriving[n] = grad.load(m, n);
    }
    for (; p < table.polynomials && table.polynomial[p].component == m; ++p) {
      const Polynomial polynomial = table.polynomial[p];
      Pack weight[N], weighted[N], value[N] = {};
      EQUIGEO_UNROLL
      for (int n = 0; n < N; ++n) {
        weight[n] = weights.load(polynomial.weight, n);
        weighted[n] = weight[n] * arriving[n];
      }
      polynomial_slopes<Full>(table, polynomial, nodes, slopes, weighted, value);
      if (Full) {
        EQUIGEO_UNROLL
        for (int n = 0; n < N; ++n) {
          to_weights.add(polynomial.weight, n, arriving[n] * value[n]);
          sum[n] += weight[n] * value[n];
        }
      }
    }
    if (Full) {
      EQUIGEO_UNROLL
      for (int n = 0; n < N; ++n) {
        to_grad.store(m, n, sum[n]);
      }
    }
  }
  for (int64_t s = table.products; s-- > 0;) {
    const Product product = table.product[s];
    EQUIGEO_UNROLL
    for (int n = 0; n < N; ++n) {
      const Pack slope = slopes.load(1 + table.variables + s, n);
      slopes.add(product.left, n, slope * nodes.load(product.right, n));
      slopes.add(product.right, n, slope * nodes.load(product.left, n));
    }
  }
}

// Runs are numbered with gaps, so that each is found from its number alone; what falls into a gap
// is empty and not the first of its set.
EQUIGEO_HOST_DEVICE int64_t first_run(const int64_t* ptr, int64_t set) {
  return ptr[set] / kRowsOfRun + set;
}

struct Run {
  int64_t set;
  int64_t begin, end;  // places in the list of rows
  bool first, alone;   // whether it is the first, the only one of its set
};

EQUIGEO_HOST_DEVICE Run find_run(const int64_t* ptr, int64_t sets, int64_t number) {
  int64_t low = 0, high = sets;  // the set lies in [low, high)
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    if (first_run(ptr, middle) <= number) {
      low = middle;
    } else {
      high = middle;
    }
  }
  const int64_t start = ptr[low], last = ptr[low + 1], part = number - first_run(ptr, low);
  const int64_t from = start + part * kRowsOfRun, begin = from < last ? from : last;
  const int64_t end = begin + kRowsOfRun < last ? begin + kRowsOfRun : last;
  return {low, begin, end, part == 0, last - start <= kRowsOfRun};
}

}  // namespace
}  // namespace equigeo
