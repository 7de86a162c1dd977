// Path tables that are given at run time: the same numbers make a table for the host, which
// launches kernels, and in the source that these are compiled from.
#pragma once

#include "kernels/cuda/known_tables.h"

namespace equigeo {
namespace {

// The components of the second input, whether weights lie in the order of paths, how many segments
// and paths there are; channels and degree of each segment; segment, l2 and l3 of each path.
constexpr KnownTable numbered_table(const int* numbers) {
  KnownTable table{numbers[0], numbers[1] != 0, 0, numbers[2], numbers[3], 0, {}, {}, {}};
  const int* next = numbers + 4;
  for (int s = 0; s < table.segments; ++s, next += 2) {
    table.segment[s] = {next[0], next[1], 0};
  }
  for (int p = 0; p < table.paths; ++p, next += 3) {
    table.path[p] = with_terms(next[0], table.segment[next[0]].l, next[1], next[2]);
  }
  return cut_table(table, 0);
}

// Whether kernels of table a are for table b: its segments and paths are the same.
inline bool same_paths(const KnownTable& a, const KnownTable& b) {
  bool same = a.second == b.second && (b.in_order || !a.in_order) && a.segments == b.segments &&
              a.paths == b.paths;
  for (int s = 0; same && s < a.segments; ++s) {
    same = a.segment[s].mul == b.segment[s].mul && a.segment[s].l == b.segment[s].l;
  }
  for (int p = 0; same && p < a.paths; ++p) {
    const KnownPath &first = a.path[p], &second = b.path[p];
    same = first.segment == second.segment && first.l2 == second.l2 && first.l3 == second.l3;
  }
  return same;
}

}  // namespace
}  // namespace equigeo
