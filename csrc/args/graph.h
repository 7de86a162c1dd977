// The edges of a graph, for any device: contiguous arrays whose sizes have been checked.
#pragma once

#include <stdint.h>

namespace equigeo {

// Edges sorted by target, and the same edges listed by source. Positions count sorted edges; rows
// of per-edge features are in the order in which the edges were given. Lists that an op does not
// read are null.
struct Graph {
  const int64_t* source;      // (edges,) of each position
  const int64_t* ptr;         // (targets + 1,)
  const int64_t* order;       // (edges,) row of each position
  const int64_t* target;      // (edges,) of each position
  const int64_t* back_order;  // (edges,) positions by source
  const int64_t* back_ptr;    // (sources + 1,)
  int64_t sources, targets, edges;
};

}  // namespace equigeo
