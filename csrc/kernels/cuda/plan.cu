// The kernel that makes a plan. Every number is counted out by a thread of its own: tables are
// short.
#include "kernels/cuda/plan.h"

#include "kernels/cuda/launch.cuh"
#include "math/path_table.h"

namespace equigeo {
namespace {

__device__ inline void require(bool holds) {
  if (!holds) {
    __trap();
  }
}

template <class T>
__device__ void require_channelwise(const PathTable<T>& table, const Path& path) {
  require(has_kernel(path) && stays_inside(table, path) && has_channelwise_weights(table, path));
  require(has_layout(table, path) && path.out.mul == path.x.mul);
}

// Terms of one path in the order of their keys, equal keys in the order of the table.
template <class T, class Key, class At>
__device__ void sort_terms(
    const PathTable<T>& table,
    const Path& path,
    const Runs<T>& runs,
    const Key& key,
    const At& at) {
  for (int64_t n = path.first + threadIdx.x; n < path.last; n += blockDim.x) {
    const int mine = key(table.entry[n]);
    int64_t place = path.first;
    for (int64_t m = path.first; m < path.last; ++m) {
      const int other = key(table.entry[m]);
      place += other < mine || (other == mine && m < n);
    }
    runs.key[place] = mine;
    runs.term[place] = {table.value[n], at(table.entry[n])};
  }
}

// Runs of equal keys of sorted terms.
template <class T>
__device__ void find_runs(const Path& path, int64_t p, const Runs<T>& runs) {
  const int* key = runs.key + path.first;
  const int count = static_cast<int>(path.last - path.first);
  for (int n = threadIdx.x; n < count; n += blockDim.x) {
    if (n > 0 && key[n] == key[n - 1]) {
      continue;
    }
    int before = 0, last = n + 1;
    for (int m = 0; m < n; ++m) {
      before += m == 0 || key[m] != key[m - 1];
    }
    while (last < count && key[last] == key[n]) {
      ++last;
    }
    runs.run[path.first + before] = {n, last, key[n]};
    if (last == count) {
      runs.count[p] = before + 1;
    }
  }
  if (count == 0 && threadIdx.x == 0) {
    runs.count[p] = 0;
  }
}

// Paths may share all of their coefficients; to share some would mix their runs.
template <class T>
__device__ void check_coefficients(const PathTable<T>& table, int64_t p) {
  const Path& path = table.path[p];
  require(0 <= path.first && path.first <= path.last && path.last <= table.coefficients);
  for (int64_t n = path.first + threadIdx.x; n < path.last; n += blockDim.x) {
    require(couples(path, table.entry[n]));
  }
  for (int64_t q = threadIdx.x; q < p; q += blockDim.x) {
    const Path& other = table.path[q];
    const bool same = other.first == path.first && other.last == path.last;
    require(same || other.last <= path.first || path.last <= other.first);
  }
}

__device__ inline int place_of(const Entry& entry) {
  return static_cast<int>(entry.k * kColumns + entry.i);
}

template <class T>
__device__ void plan_coefficients(const PathTable<T>& table, int64_t p, const Plan<T>& plan) {
  const Path path = table.path[p];
  require_channelwise(table, path);
  check_coefficients(table, p);
  const auto place = [](const Entry& entry) { return place_of(entry); };
  const auto second = [](const Entry& entry) { return static_cast<int>(entry.j); };
  sort_terms(table, path, plan.by_place, place, second);
  sort_terms(table, path, plan.by_second, second, place);
  __syncthreads();
  find_runs(path, p, plan.by_place);
  find_runs(path, p, plan.by_second);
}

// Whether segments are the same; they must not overlap otherwise.
__device__ inline bool same_segment(const Segment& a, const Segment& b) {
  const bool same = a.offset == b.offset && a.mul == b.mul && a.d == b.d;
  require(same || a.offset + a.mul * a.d <= b.offset || b.offset + b.mul * b.d <= a.offset);
  return same;
}

template <class T>
__device__ PlannedPath planned(const PathTable<T>& table, int64_t p) {
  const Path& path = table.path[p];
  require_channelwise(table, path);
  PlannedPath to;
  to.x = static_cast<int>(path.x.offset);
  to.mul = static_cast<int>(path.x.mul);
  to.d1 = static_cast<int>(path.x.d);
  to.y = static_cast<int>(path.y.offset);
  to.mul2 = static_cast<int>(path.y.mul);
  to.d2 = static_cast<int>(path.y.d);
  to.y_copy = table.ir_mul ? 1 : to.d2;
  to.y_component = table.ir_mul ? to.mul2 : 1;
  to.out = static_cast<int>(path.out.offset);
  to.d3 = static_cast<int>(path.out.d);
  to.weight = path.weight < 0 ? -1 : static_cast<int>(path.weight);
  to.table = static_cast<int>(p);
  to.terms = static_cast<int>(path.first);
  to.first_x = to.first_out = true;
  for (int64_t q = 0; q < p; ++q) {
    const Path& other = table.path[q];
    const bool same_x = same_segment(path.x, other.x);
    const bool same_out = same_segment(path.out, other.out);
    to.first_x = to.first_x && !same_x;
    to.first_out = to.first_out && !same_out;
  }
  return to;
}

template <class T>
__device__ void sort_paths(const PathTable<T>& table, const Plan<T>& plan) {
  const auto begin = [&](int64_t p) {
    return plan.side == Side::kOut ? table.path[p].out.offset : table.path[p].x.offset;
  };
  for (int64_t p = threadIdx.x; p < table.count; p += blockDim.x) {
    int64_t place = 0;
    for (int64_t q = 0; q < table.count; ++q) {
      place += begin(q) < begin(p) || (begin(q) == begin(p) && q < p);
    }
    plan.path[place] = planned(table, p);
  }
}

// The segment of a planned path on the tiled side; behind the last one the end of the row.
struct Span {
  int begin, mul, d;
  __device__ int end() const { return begin + mul * d; }
};

template <class T>
__device__ Span span(const Plan<T>& plan, int64_t r) {
  const bool out = plan.side == Side::kOut;
  if (r == plan.count) {
    return {static_cast<int>(out ? plan.dim_out : plan.dim_x), 0, 1};
  }
  const PlannedPath& path = plan.path[r];
  return out ? Span{path.out, path.mul, path.d3} : Span{path.x, path.mul, path.d1};
}

template <class T>
__device__ bool covers_weight(const PathTable<T>& table) {
  int64_t weights = 0;
  for (int64_t p = 0; p < table.count; ++p) {
    weights += table.path[p].weight < 0 ? 0 : table.path[p].x.mul * table.path[p].y.mul;
  }
  return weights == table.dim_weight;
}

// How a segment, or a gap, is cut into tiles.
struct Cut {
  int rows, channels;  // of each tile
  int parts, count;    // tiles one upon another, and in all
};

template <class T>
__device__ Cut cut(Side side, const Span& span) {
  const int parts = side == Side::kOut ? (span.d + kMostRows - 1) / kMostRows : 1;
  Cut cut;
  cut.rows = (span.d + parts - 1) / parts;
  cut.parts = (span.d + cut.rows - 1) / cut.rows;
  cut.channels = kWarp * channels_per_lane<T>(side, span.d);
  cut.count = cut.parts * ((span.mul + cut.channels - 1) / cut.channels);
  return cut;
}

template <class T>
__device__ void write_tiles(Side side, const Span& span, int first, int last, Tile* to) {
  const Cut shape = cut<T>(side, span);
  for (int n = 0; n < shape.count; ++n) {
    const int row = n % shape.parts * shape.rows;
    const int rows = shape.rows < span.d - row ? shape.rows : span.d - row;
    const int channel = n / shape.parts * shape.channels;
    to[n] = {first, last, span.begin, span.mul, span.d, row, rows, channel};
  }
}

// Whether path r is the first one of its segment; the end of the row counts as a segment.
template <class T>
__device__ bool is_first_of_segment(const Plan<T>& plan, int64_t r) {
  return r == 0 || span(plan, r).begin != span(plan, r - 1).begin;
}

template <class T>
__device__ Span gap_before(const Plan<T>& plan, int64_t r) {
  const int begin = r == 0 ? 0 : span(plan, r - 1).end();
  return {begin, span(plan, r).begin - begin, 1};
}

template <class T>
__device__ void plan_tiles(const PathTable<T>& table, const Plan<T>& plan) {
  sort_paths(table, plan);
  __syncthreads();
  for (int64_t r = threadIdx.x; r <= plan.count; r += blockDim.x) {
    plan.tiles_from[r] = 0;
    if (is_first_of_segment(plan, r)) {
      plan.tiles_from[r] =
          cut<T>(plan.side, gap_before(plan, r)).count + cut<T>(plan.side, span(plan, r)).count;
    }
  }
  __syncthreads();
  for (int64_t r = threadIdx.x; r <= plan.count; r += blockDim.x) {
    int64_t last = r + 1;
    while (last < plan.count && !is_first_of_segment(plan, last)) {
      ++last;
    }
    Tile* to = plan.tile;
    for (int64_t q = 0; q < r; ++q) {
      to += plan.tiles_from[q];
    }
    if (is_first_of_segment(plan, r)) {
      const Span gap = gap_before(plan, r);
      write_tiles<T>(plan.side, gap, 0, 0, to);
      to += cut<T>(plan.side, gap).count;
      const int first = static_cast<int>(r);
      write_tiles<T>(plan.side, span(plan, r), first, static_cast<int>(last), to);
    }
    if (r == plan.count) {
      plan.totals->tiles = static_cast<int>(to - plan.tile);
      plan.totals->covers_weight = covers_weight(table);
    }
  }
}

// One block per path for its coefficients, and one for all tiles.
template <class T>
__global__ void __launch_bounds__(kThreads) plan_paths(PathTable<T> table, Plan<T> plan) {
  if (blockIdx.x < table.count) {
    plan_coefficients(table, blockIdx.x, plan);
  } else {
    plan_tiles(table, plan);
  }
}

}  // namespace

template <class T>
const char* make_plan(const PathTable<T>& table, const Plan<T>& plan, void* stream) {
  if (table.dim_x >= kLongestRow || table.dim_y >= kLongestRow || table.dim_weight >= kLongestRow ||
      table.dim_out >= kLongestRow || table.coefficients >= kLongestRow) {
    return "a row, or the table of coefficients, has 2^27 elements or more";
  }
  const unsigned blocks = static_cast<unsigned>(table.count + 1);
  launch_kernel(plan_paths<T>, blocks, kThreads, 0, stream, table, plan);
  return launch_error();
}

template const char* make_plan(const PathTable<float>&, const Plan<float>&, void*);
template const char* make_plan(const PathTable<double>&, const Plan<double>&, void*);

}  // namespace equigeo
