// A path table in the form in which kernels read it for every edge.
#pragma once

#include "args/path_table.h"
#include "kernels/cuda/carver.h"
#include "math/host_device.h"

namespace equigeo {

constexpr int kMostRows = 7;                       // of an output that a lane sums at once
constexpr int kColumns = 16;                       // M_ki has place 16 k + i, whatever its width
constexpr int64_t kLongestRow = int64_t{1} << 27;  // so that places are 32-bit numbers

// Numbers from one row of a staged matrix to the next: rows are read in words of 16 bytes.
EQUIGEO_HOST_DEVICE constexpr int row_stride(int d1) { return d1 == 1 ? 1 : (d1 + 3) / 4 * 4; }

// The coefficients of every path, by the number that they make up: those with the same key, which
// is the place of a number of the matrix, or a component of the second input. They are a run of
// terms, in the order in which they came. The longest runs come first, and term m of run n of a
// path is `start[m] + n`: lanes that each add up a run read neighbours. Path p of the table has its
// runs and terms where it has its coefficients there.
template <class T>
struct Runs {
  int* count;   // (paths,) runs
  int* key;     // of each run
  int* length;  // of each run
  int* start;   // of the terms m of all runs of a path
  T* value;     // of each term: a coefficient
  int* at;  // of each term, what it is multiplied by: a component of the second input, or a place
  int* given;   // of each coefficient of the table: its key,
  int* before;  // how many before it have the same,
  int* equal;   // and how many there are
};

// A path with 32-bit offsets. Component j of copy v of its second input is
// `y + v * y_copy + j * y_component`.
struct PlannedPath {
  int x, mul, d1;
  int y, mul2, d2, y_copy, y_component;
  int out, d3;
  int weight;
  int table, terms;         // its index and its first coefficient in the table
  int numbers;              // of a matrix
  int matrix;               // numbers of all matrices before those of its copies
  bool first_x, first_out;  // whether no path of the table before it has the same segment
};

// The channels [channel, ...) of the components [row, row + rows) of a segment, which a warp makes
// from the paths [first, last). A gap between segments makes tiles without paths.
struct Tile {
  int first, last;
  int begin, mul, d;  // the segment
  int row, rows, channel;
};

struct Totals {
  int tiles;
  int numbers;  // of all matrices of an edge
  bool covers_weight;
};

// The side of the paths whose rows are made of tiles.
enum class Side { kFirst, kOut };

template <class T>
struct Plan {
  Side side;
  PlannedPath* path;  // sorted by segment on this side
  Tile* tile;
  int* tiles_from;  // (paths + 1,) that begin with each path
  Totals* totals;
  Runs<T> by_place, by_second;
  int64_t count;
  int64_t dim_x, dim_y, dim_weight, dim_out;
  bool ir_mul;
};

// How many channels a lane takes at most: what it holds of them must fit into registers.
template <class T>
EQUIGEO_HOST_DEVICE constexpr int channels_per_lane(Side side, int d) {
  return side == Side::kOut || d * sizeof(T) <= 20 ? 2 : 1;
}

template <class T>
Runs<T> cut_runs(const PathTable<T>& table, Carver& memory) {
  Runs<T> runs;
  runs.count = memory.take<int>(table.count);
  runs.key = memory.take<int>(table.coefficients);
  runs.length = memory.take<int>(table.coefficients);
  runs.start = memory.take<int>(table.coefficients);
  runs.value = memory.take<T>(table.coefficients);
  runs.at = memory.take<int>(table.coefficients);
  runs.given = memory.take<int>(table.coefficients);
  runs.before = memory.take<int>(table.coefficients);
  runs.equal = memory.take<int>(table.coefficients);
  return runs;
}

// A plan in scratch memory, not made yet.
template <class T>
Plan<T> cut_plan(const PathTable<T>& table, Side side, Carver& memory) {
  const int64_t dim = side == Side::kOut ? table.dim_out : table.dim_x;
  Plan<T> plan;
  plan.side = side;
  plan.path = memory.take<PlannedPath>(table.count);
  // A segment, or a gap, of n elements makes no more than n / 6 + 1 tiles: they are
  // ceil(d / 7) ceil(mul / 64) with two channels for each lane, ceil(mul / 32) with one.
  plan.tile = memory.take<Tile>(dim / 6 + 2 * table.count + 1);
  plan.tiles_from = memory.take<int>(table.count + 1);
  plan.totals = memory.take<Totals>(1);
  plan.by_place = cut_runs(table, memory);
  plan.by_second = cut_runs(table, memory);
  plan.count = table.count;
  plan.dim_x = table.dim_x;
  plan.dim_y = table.dim_y;
  plan.dim_weight = table.dim_weight;
  plan.dim_out = table.dim_out;
  plan.ir_mul = table.ir_mul;
  return plan;
}

// Queue the making of a plan on a stream; null, or what went wrong. A table that would lead out of
// a row stops the kernel with a trap: it is on the device, where the host cannot read it without
// waiting.
template <class T>
const char* make_plan(const PathTable<T>& table, const Plan<T>& plan, void* stream);

}  // namespace equigeo
