// The kernel that makes plans. Every number is counted out by a thread of its own: tables are
// short.
#include "kernels/cuda/plan.h"

#include "kernels/cuda/kept_part.cuh"
#include "kernels/cuda/loaded_kernels.h"
#include "math/path_table.h"

namespace equigeo {
namespace {

constexpr int kPlanBlocks = 2;  // blocks that a multiprocessor must have registers for: none spills

// Call visit(p, path) in a thread for each path. They come through shared memory: one beside
// another, lanes would each read from far apart.
template <class T, class Visit>
__device__ void for_paths(const PathTable<T>& table, const Visit& visit) {
  constexpr int kNumbers = sizeof(Path) / sizeof(int64_t);
  // One number more, so that lanes read from banks of their own.
  int64_t (*tile)[kNumbers + 1] = static_shared<int64_t[kWarp][kNumbers + 1]>();
  for (int64_t begin = 0; begin < table.count; begin += kWarp) {
    const int64_t left = table.count - begin;
    const int size = static_cast<int>(left < kWarp ? left : kWarp);
    const int64_t* from = &table.path[begin].x.offset;
    __syncthreads();  // what was there has been read
    for (int n = threadIdx.x; n < kNumbers * size; n += blockDim.x) {
      tile[n / kNumbers][n % kNumbers] = from[n];
    }
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < size) {
      visit(begin + threadIdx.x, *reinterpret_cast<const Path*>(tile[threadIdx.x]));
    }
  }
}

template <class T>
__device__ void require_channelwise(const PathTable<T>& table, const Path& path) {
  require(has_kernel(path) && stays_inside(table, path) && has_channelwise_weights(table, path));
  require(has_layout(table, path) && path.out.mul == path.x.mul);
}

// How many coefficients of the path have the same key, and how many of these come before.
template <class T>
__device__ void count_equal(const Path& path, const Runs<T>& runs) {
  for (int64_t n = path.first + threadIdx.x; n < path.last; n += blockDim.x) {
    int before = 0, equal = 0;
    for (int64_t m = path.first; m < path.last; ++m) {
      const bool same = runs.given[m] == runs.given[n];
      equal += same;
      before += same && m < n;
    }
    runs.before[n] = before;
    runs.equal[n] = equal;
  }
}

// Where a coefficient goes to: term `before` of run `run`, behind `terms` others before that.
struct TermPlace {
  int run, terms, runs;

  __device__ int term() const { return terms + run; }
};

// A run is counted where it begins.
template <class T>
__device__ TermPlace term_place(const Path& path, const Runs<T>& runs, int64_t n) {
  const int key = runs.given[n], before = runs.before[n], equal = runs.equal[n];
  TermPlace place{0, 0, 0};
  for (int64_t m = path.first; m < path.last; ++m) {
    if (runs.before[m] == 0) {
      const int length = runs.equal[m];
      place.run += length > equal || (length == equal && runs.given[m] < key);
      place.terms += length < before ? length : before;
      ++place.runs;
    }
  }
  return place;
}

// Every coefficient to its place; `at` is what it is multiplied by.
template <class T>
__device__ void write_runs(const Path& path, int64_t p, const int* at, const Runs<T>& runs) {
  for (int64_t n = path.first + threadIdx.x; n < path.last; n += blockDim.x) {
    const TermPlace place = term_place(path, runs, n);
    runs.place[n] = static_cast<int>(path.first) + place.term();
    runs.at[runs.place[n]] = at[n];
    if (runs.before[n] == 0) {
      runs.key[path.first + place.run] = runs.given[n];
      runs.length[path.first + place.run] = runs.equal[n];
    }
    if (place.run == 0) {  // the longest has all m
      runs.start[path.first + runs.before[n]] = place.terms;
    }
    if (n == path.first) {
      runs.count[p] = place.runs;
    }
  }
  if (path.first == path.last && threadIdx.x == 0) {
    runs.count[p] = 0;
  }
}

// Coefficients are those of one path, as they are listed: runs are where these are, and each block
// writes its own.
template <class T>
__device__ void check_coefficients(const PathTable<T>& table, int64_t p) {
  const Path& path = table.path[p];
  require(0 <= path.first && path.first <= path.last && path.last <= table.coefficients);
  require(p == 0 || table.path[p - 1].last <= path.first);
}

__device__ inline int place_of(const Entry& entry) {
  return static_cast<int>(entry.k * kColumns + entry.i);
}

// Keys of all coefficients of a path. Entries are three numbers each: a warp reads 32 of them as 96
// neighbours, and takes them apart in shared memory.
template <class T>
__device__ void find_keys(const PathTable<T>& table, const Path& path, const Plan<T>& plan) {
  constexpr int kNumbers = sizeof(Entry) / sizeof(int64_t);
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  Entry* tile = static_shared<Entry[kThreads / kWarp][kWarp]>()[warp];
  for (int64_t begin = path.first + warp * kWarp; begin < path.last; begin += blockDim.x) {
    const int count = static_cast<int>(path.last - begin < kWarp ? path.last - begin : kWarp);
    const int64_t* from = &table.entry[begin].i;
    __syncwarp();  // what was there has been read
    for (int n = lane; n < kNumbers * count; n += kWarp) {
      (&tile[0].i)[n] = from[n];
    }
    __syncwarp();
    if (lane < count) {
      const Entry& entry = tile[lane];
      require(couples(path, entry));
      plan.by_place.given[begin + lane] = place_of(entry);
      plan.by_second.given[begin + lane] = static_cast<int>(entry.j);
    }
  }
}

// Whether path p is that of a known table, for all threads of a block: with its segments, weights
// that no other path has, and its coefficients in their order.
template <class T>
__device__ bool is_known(
    const PathTable<T>& table, int64_t p, const Path& path, const KnownTable& known) {
  if (p >= known.paths) {
    return false;
  }
  const KnownPath& other = known.path[p];
  const int n = static_cast<int>(p), mul = known.mul(n);
  const bool same = path.x.mul == mul && path.y.mul == 1 && path.x.d == other.d1() &&
                    path.y.d == other.d2() && path.out.d == other.d3() &&
                    path.x.offset == known.before_x(other.segment) &&
                    path.y.offset == other.before_y() && path.out.offset == known.before_out(n) &&
                    path.weight >= 0 && path.last - path.first == other.terms &&
                    (!known.in_order || path.weight == known.before_weight(n));
  const bool alone =
      same && hold_all(table.count, [&](int64_t q) {
        const int64_t weight = table.path[q].weight;
        return q == p || weight + table.path[q].x.mul <= path.weight || path.weight + mul <= weight;
      });
  const auto place = [&](const Entry& entry) {
    return (entry.i * other.d2() + entry.j) * other.d3() + entry.k;
  };
  return alone && hold_all(other.terms, [&](int64_t m) {
           const Entry* entry = table.entry + path.first + m;
           return (m == 0 || place(entry[-1]) < place(*entry)) &&
                  other.couples(
                      static_cast<int>(entry->i), static_cast<int>(entry->j),
                      static_cast<int>(entry->k));
         });
}

template <class T>
__device__ void plan_coefficients(
    const PathTable<T>& table,
    int64_t p,
    const Plan<T>& plan,
    const LastRead& last,
    const KnownTable& known) {
  const Path path = table.path[p];
  check_coefficients(table, p);
  const auto make = [&] {
    require_channelwise(table, path);
    find_keys(table, path, plan);
    __syncthreads();
    count_equal(path, plan.by_place);
    count_equal(path, plan.by_second);
    __syncthreads();
    write_runs(path, p, plan.by_second.given, plan.by_place);
    write_runs(path, p, plan.by_place.given, plan.by_second);
    const bool same = is_known(table, p, path, known);
    if (threadIdx.x == 0) {
      plan.known[p] = same;
    }
  };
  const int64_t coefficients = path.last - path.first;
  make_if_changed(
      last.made, make, Read<Path>{table.path + p, last.paths + p, 1},
      Read<Entry>{table.entry + path.first, last.entries + path.first, coefficients});
  __syncthreads();
  for (int64_t n = path.first + threadIdx.x; n < path.last; n += blockDim.x) {
    plan.by_place.value[plan.by_place.place[n]] = table.value[n];
    plan.by_second.value[plan.by_second.place[n]] = table.value[n];
  }
}

// Whether segments are the same; they must not overlap otherwise.
__device__ inline bool same_segment(const Segment& a, const Segment& b) {
  const bool same = a.offset == b.offset && a.mul == b.mul && a.d == b.d;
  require(same || a.offset + a.mul * a.d <= b.offset || b.offset + b.mul * b.d <= a.offset);
  return same;
}

// Numbers of the matrix of a path for one copy of the second input.
__device__ inline int numbers_of(const Path& path) {
  const int numbers = static_cast<int>(path.out.d) * row_stride(static_cast<int>(path.x.d));
  return (numbers + 3) / 4 * 4;  // the next one is read in words, too
}

template <class T>
__device__ PlannedPath planned(const PathTable<T>& table, int64_t p, const Path& path) {
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
  to.numbers = numbers_of(path);
  to.first_x = to.first_out = true;
  for (int64_t q = 0; q < p; ++q) {
    const Path& other = table.path[q];
    const bool same_x = same_segment(path.x, other.x);
    const bool same_out = same_segment(path.out, other.out);
    to.first_x = to.first_x && !same_x;
    to.first_out = !same_out;  // paths are sorted by their outputs
  }
  return to;
}

template <class T>
__device__ void sort_paths(const PathTable<T>& table, const Plan<T>& plan) {
  const auto begin = [&](const Path& path) {
    return plan.side == Side::kOut ? path.out.offset : path.x.offset;
  };
  for_paths(table, [&](int64_t p, const Path& path) {
    int64_t place = 0;
    int matrix = 0;
    for (int64_t q = 0; q < table.count; ++q) {
      const Path& other = table.path[q];
      if (begin(other) < begin(path) || (begin(other) == begin(path) && q < p)) {
        ++place;
        matrix += numbers_of(other) * static_cast<int>(other.y.mul);
      }
    }
    plan.path[place] = planned(table, p, path);
    plan.path[place].matrix = matrix;
  });
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
    to[n] = Tile{first, last, span.begin, span.mul, span.d, row, rows, channel};
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
      const PlannedPath* last_path = plan.count > 0 ? &plan.path[plan.count - 1] : nullptr;
      plan.totals->numbers =
          last_path == nullptr ? 0 : last_path->matrix + last_path->numbers * last_path->mul2;
      plan.totals->covers_weight = covers_weight(table);
    }
  }
}

// One block per path for its coefficients, and one for all tiles of each side.
template <class T>
__global__ void __launch_bounds__(kThreads, kPlanBlocks) plan_paths(
    const __grid_constant__ PathTable<T> table,
    const __grid_constant__ Plans<T> plans,
    const __grid_constant__ KnownTable known) {
  const LastRead& last = plans.last_read;
  if (blockIdx.x < table.count) {
    return plan_coefficients(table, blockIdx.x, plans.by_out, last, known);
  }
  const bool out = blockIdx.x == table.count;
  make_if_changed(
      last.made, [&] { plan_tiles(table, out ? plans.by_out : plans.by_first); },
      Read<Path>{table.path, last.paths + (out ? 1 : 2) * table.count, table.count});
}

// While this lives, calls that graphs do not capture are allowed though another thread captures
// one.
class AnyCapture {
 public:
  AnyCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~AnyCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  AnyCapture(const AnyCapture&) = delete;
  AnyCapture& operator=(const AnyCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace

template <class T>
const char* make_plans(const PathTable<T>& table, const Plans<T>& plans, void* stream) {
  if (table.dim_x >= kLongestRow || table.dim_y >= kLongestRow || table.dim_weight >= kLongestRow ||
      table.dim_out >= kLongestRow || table.coefficients >= kLongestRow) {
    return "a row, or the table of coefficients, has 2^27 elements or more";
  }
  const unsigned blocks = static_cast<unsigned>(table.count + 2);
  const KnownTable* known = table_with_kernels(table);
  launch_kernel(
      plan_paths<T>, blocks, kThreads, 0, stream, table, plans,
      known == nullptr ? KnownTable{} : *known);
  return launch_error();
}

template const char* make_plans(const PathTable<float>&, const Plans<float>&, void*);
template const char* make_plans(const PathTable<double>&, const Plans<double>&, void*);

bool find_queue(void* stream, Queue& queue) {
  const auto handle = static_cast<cudaStream_t>(stream);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0, graph = 0;
  if (cudaStreamGetCaptureInfo(handle, &status, &graph) != cudaSuccess ||
      cudaStreamGetId(handle, &id) != cudaSuccess) {
    cudaGetLastError();  // calls go on without
    return false;
  }
  const bool captures = status == cudaStreamCaptureStatusActive;
  queue = {static_cast<int64_t>(id), captures, captures ? static_cast<int64_t>(graph) : 0};
  return captures || status == cudaStreamCaptureStatusNone;
}

void* take_kept_memory(int64_t bytes) {
  const AnyCapture anyway;
  const auto size = static_cast<size_t>(bytes);
  void* memory = nullptr;
  cudaStream_t stream = nullptr;  // of its own: that of the call may capture a graph
  if (cudaMalloc(&memory, size) != cudaSuccess) {
    cudaGetLastError();  // calls go on without
    return nullptr;
  }
  bool filled = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess;
  if (filled) {
    filled = cudaMemsetAsync(memory, 0, size, stream) == cudaSuccess &&
             cudaStreamSynchronize(stream) == cudaSuccess;
    cudaStreamDestroy(stream);
  }
  if (!filled) {
    cudaGetLastError();
    cudaFree(memory);
    return nullptr;
  }
  return memory;
}

void give_kept_memory_back(void* memory) {
  const AnyCapture anyway;
  cudaFree(memory);  // waits for the kernels that read it
}

}  // namespace equigeo
