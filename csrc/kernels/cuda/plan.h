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
  int* equal;   // how many there are,
  int* place;   // and its term
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
  int* known;  // (paths,) whether each is as the known table of these sizes has it
  Runs<T> by_place, by_second;
  int64_t count;
  int64_t dim_x, dim_y, dim_weight, dim_out;
  bool ir_mul;
  const LoadedKernels* loaded;  // of the table, for the host
};

// How many channels a lane takes at most: what it holds of them must fit into registers.
template <class T>
EQUIGEO_HOST_DEVICE constexpr int channels_per_lane(Side side, int d) {
  return side == Side::kOut || d * sizeof(T) <= 20 ? 2 : 1;
}

// What each block of the kernel that makes plans has read when it last made its part: the next call
// makes it again only if that has changed.
struct LastRead {
  int* made;    // (paths + 2,) whether the block has made its part; null if nothing is kept
  Path* paths;  // (3 paths,): of the blocks of each path, and of those of either side
  Entry* entries;
};

// The plans of both sides. All but the values of coefficients may be kept: tables differ in these
// more often than in the rest, and each call writes its own.
template <class T>
struct Plans {
  Plan<T> by_first, by_out;
  LastRead last_read;
};

template <class T>
Runs<T> cut_runs(const PathTable<T>& table, Carver& memory) {
  Runs<T> runs{};
  runs.count = memory.take<int>(table.count);
  runs.key = memory.take<int>(table.coefficients);
  runs.length = memory.take<int>(table.coefficients);
  runs.start = memory.take<int>(table.coefficients);
  runs.at = memory.take<int>(table.coefficients);
  runs.given = memory.take<int>(table.coefficients);
  runs.before = memory.take<int>(table.coefficients);
  runs.equal = memory.take<int>(table.coefficients);
  runs.place = memory.take<int>(table.coefficients);
  return runs;
}

template <class T>
Plan<T> cut_plan(const PathTable<T>& table, Side side, Carver& memory) {
  const int64_t dim = side == Side::kOut ? table.dim_out : table.dim_x;
  Plan<T> plan{};
  plan.side = side;
  plan.path = memory.take<PlannedPath>(table.count);
  // A segment, or a gap, of n elements makes no more than n / 6 + 1 tiles: they are
  // ceil(d / 7) ceil(mul / 64) with two channels for each lane, ceil(mul / 32) with one.
  plan.tile = memory.take<Tile>(dim / 6 + 2 * table.count + 1);
  plan.tiles_from = memory.take<int>(table.count + 1);
  plan.totals = memory.take<Totals>(1);
  plan.count = table.count;
  plan.dim_x = table.dim_x;
  plan.dim_y = table.dim_y;
  plan.dim_weight = table.dim_weight;
  plan.dim_out = table.dim_out;
  plan.ir_mul = table.ir_mul;
  plan.loaded = table.loaded;
  return plan;
}

template <class T>
Plans<T> cut_kept_part(const PathTable<T>& table, Carver& memory) {
  Plans<T> plans{cut_plan(table, Side::kFirst, memory), cut_plan(table, Side::kOut, memory), {}};
  plans.by_first.by_place = plans.by_out.by_place = cut_runs(table, memory);
  plans.by_first.by_second = plans.by_out.by_second = cut_runs(table, memory);
  plans.by_first.known = plans.by_out.known = memory.take<int>(table.count);
  plans.last_read.made = memory.take<int>(table.count + 2);
  plans.last_read.paths = memory.take<Path>(3 * table.count);
  plans.last_read.entries = memory.take<Entry>(table.coefficients);
  return plans;
}

// Of ops with a table.
template <template <class> class Op, class S>
auto size_to_keep(const Op<S>& op) -> decltype(op.table.kept, int64_t()) {
  Carver memory(nullptr);
  cut_kept_part(op.table, memory);
  return memory.used();
}

// Plans in the memory that is kept for the table, or in scratch memory; not made yet.
template <class T>
Plans<T> cut_plans(const PathTable<T>& table, Carver& memory) {
  Carver kept(table.kept);
  Plans<T> plans = cut_kept_part(table, table.kept == nullptr ? memory : kept);
  plans.last_read.made = table.kept == nullptr ? nullptr : plans.last_read.made;
  plans.by_first.by_place.value = plans.by_out.by_place.value = memory.take<T>(table.coefficients);
  plans.by_first.by_second.value = plans.by_out.by_second.value =
      memory.take<T>(table.coefficients);
  return plans;
}

// Queue the making of plans on a stream, of what is not kept or has changed; null, or what went
// wrong. A table that would lead out of a row stops the kernel with a trap: it is on the device,
// where the host cannot read it without waiting.
template <class T>
const char* make_plans(const PathTable<T>& table, const Plans<T>& plans, void* stream);

// Where a call is queued: calls with the same numbers run one after another. Unlike handles of
// streams, numbers are never used again.
struct Queue {
  int64_t stream;
  bool captures;  // whether the stream captures a graph, which is launched at any time
  int64_t graph;
};

// Whether the queue of a stream on the current device is found.
bool find_queue(void* stream, Queue& queue);

// Zeros on the current device, to be kept; also while a stream captures a graph. Null where there
// is no memory.
void* take_kept_memory(int64_t bytes);
void give_kept_memory_back(void* memory);

}  // namespace equigeo
