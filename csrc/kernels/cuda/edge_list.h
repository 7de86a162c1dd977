// The edges whose products add up to one row of a result.
#pragma once

#include "args/channelwise_conv.h"

namespace equigeo {

// Row r has the positions [ptr[r], ptr[r + 1]), each of which means an edge: what belongs to the
// edge is in row `own`, what is at its other end in row `other`. A list that is missing counts.
struct EdgeList {
  int64_t rows, edges, others;
  const int64_t* ptr;
  const int64_t* position;  // from which `own` and `other` are looked up
  const int64_t* own;
  const int64_t* other;
};

// Every row has one edge, itself.
inline EdgeList own_rows(int64_t rows) {
  return {rows, rows, rows, nullptr, nullptr, nullptr, nullptr};
}

inline EdgeList arriving_edges(const Graph& graph) {
  return {graph.targets, graph.edges, graph.sources, graph.ptr, nullptr, graph.order, graph.source};
}

inline EdgeList leaving_edges(const Graph& graph) {
  return {graph.sources,    graph.edges, graph.targets, graph.back_ptr,
          graph.back_order, graph.order, graph.target};
}

}  // namespace equigeo
