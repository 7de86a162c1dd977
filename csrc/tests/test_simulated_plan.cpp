// Plans of path tables, and of linear maps, that are kept from call to call.
#include <thread>

#include "kernels/cuda/linear_plan.cu"
#include "kernels/cuda/plan.cu"
#include "register/cuda/kept_memory.cpp"
#include "register/cuda/loaded_tables.cpp"
#include "simulated.h"

namespace equigeo {
namespace {

// Two scalars times a scalar, and two vectors times a vector, into two scalars each.
struct Problem {
  std::vector<Path> paths{
      {{0, 2, 1, 1, 1}, {0, 1, 1, 1, 1}, {0, 2, 1, 1, 1}, 0, 0, 1},
      {{2, 2, 3, 3, 1}, {1, 1, 3, 3, 1}, {2, 2, 1, 1, 1}, 2, 1, 4}};
  std::vector<Entry> entries{{0, 0, 0}, {0, 0, 0}, {1, 1, 0}, {2, 2, 0}};
  std::vector<float> values{1, 2, 3, 4};
  std::vector<char> kept = std::vector<char>(1 << 15), scratch = std::vector<char>(1 << 15);

  Plans<float> make(bool keep) {
    PathTable<float> table{};
    table.path = paths.data();
    table.count = 2;
    table.entry = entries.data();
    table.value = values.data();
    table.coefficients = 4;
    table.dim_x = 8;
    table.dim_y = table.dim_weight = table.dim_out = 4;
    table.weighted = true;
    table.kept = keep ? kept.data() : nullptr;
    std::fill(scratch.begin(), scratch.end(), '\xff');
    Carver memory(scratch.data());
    const Plans<float> plans = cut_plans(table, memory);
    check::holds(make_plans(table, plans, nullptr) == nullptr, "no error");
    return plans;
  }
};

// What kernels read of plans, apart from gaps.
std::vector<double> numbers(const Plans<float>& plans) {
  std::vector<double> found;
  for (const Plan<float>& plan : {plans.by_out, plans.by_first}) {
    for (int p = 0; p < 2; ++p) {
      const PlannedPath& path = plan.path[p];
      for (int number : {path.x, path.d1, path.y, path.out, path.d3, path.weight, path.terms}) {
        found.push_back(number);
      }
    }
    for (int t = 0; t < plan.totals->tiles; ++t) {
      const Tile& tile = plan.tile[t];
      for (int number : {tile.first, tile.last, tile.begin, tile.mul, tile.d, tile.rows}) {
        found.push_back(number);
      }
    }
    for (const Runs<float>& runs : {plan.by_place, plan.by_second}) {
      found.insert(found.end(), runs.count, runs.count + 2);
      for (int p = 0, from = 0; p < 2; from = 1, ++p) {
        for (int run = from; run < from + runs.count[p]; ++run) {
          found.insert(found.end(), {1.0 * runs.key[run], 1.0 * runs.length[run]});
        }
      }
      for (int n = 0; n < 4; ++n) {
        found.insert(found.end(), {1.0 * runs.value[n], 1.0 * runs.at[n]});
      }
    }
  }
  return found;
}

const bool once = check::add("a plan that is kept is made once, and values are read again", [] {
  check::for_orders([] {
    Problem problem;
    const std::vector<double> fresh = numbers(problem.make(false));
    const Plans<float> kept = problem.make(true);
    check::holds(numbers(kept) == fresh, "kept as without");
    // Marks that would be gone if it were made again.
    kept.by_out.totals->tiles = 77;
    kept.by_first.totals->tiles = 78;
    kept.by_out.by_place.length[0] = 79;
    kept.by_out.by_second.length[1] = 80;
    for (float& value : problem.values) {
      value *= 2;
    }
    const Plans<float> again = problem.make(true);
    check::holds(again.by_out.totals->tiles == 77, "tiles of the output");
    check::holds(again.by_first.totals->tiles == 78, "tiles of the input");
    check::holds(again.by_out.by_place.length[0] == 79, "coefficients of the first path");
    check::holds(again.by_out.by_second.length[1] == 80, "coefficients of the second path");
    check::holds(again.by_out.by_place.value[0] == 2, "a value by its place");
    check::holds(again.by_out.by_second.value[3] == 8, "a value by the second input");
  });
});

const bool changed = check::add("a table that is written to is planned again", [] {
  check::for_orders([] {
    const std::function<void(Problem&)> changes[] = {
        [](Problem& p) { p.entries[3].i = 1; },
        [](Problem& p) { std::swap(p.entries[1].j, p.entries[2].j); },
        [](Problem& p) { p.paths[1].weight = 1; },
        [](Problem& p) { std::swap(p.paths[0].out.offset, p.paths[1].out.offset); }};
    for (const auto& change : changes) {
      Problem problem;
      const std::vector<double> before = numbers(problem.make(true));
      change(problem);
      const std::vector<double> kept = numbers(problem.make(true));
      check::holds(kept == numbers(problem.make(false)), "as without what was kept");
      check::holds(kept != before, "another plan");
    }
  });
});

const bool stopped = check::add("a plan that a trap stopped is made again", [] {
  Problem problem;
  const std::vector<double> fresh = numbers(problem.make(true));
  problem.entries[2].i = 3;  // a component that vectors lack
  check::refused([&] { problem.make(true); }, {"__trap"});
  check::refused([&] { problem.make(true); }, {"__trap"});
  problem.entries[2].i = 1;
  check::holds(numbers(problem.make(true)) == fresh, "as before");
});

const bool in_kept_memory = check::add("what is kept fits into the memory that is asked for", [] {
  Problem problem;
  const Plans<float> plans = problem.make(true);
  Carver memory(nullptr);
  PathTable<float> table{};
  table.count = 2;
  table.coefficients = 4;
  table.dim_x = 8;
  table.dim_out = 4;
  cut_kept_part(table, memory);
  const char* end = problem.kept.data() + memory.used();
  check::holds(reinterpret_cast<char*>(plans.last_read.entries + 4) <= end, "entries");
  check::holds(
      std::all_of(
          end, const_cast<const char*>(problem.kept.data()) + problem.kept.size(),
          [](char byte) { return byte == 0; }),
      "nothing behind");
});

const bool linear = check::add("plans of a linear map are kept until its blocks change", [] {
  std::vector<LinearBlock> linear_blocks{{0, 40, 0, 70, 3, 0}, {120, 5, 210, 70, 1, 2800}};
  std::vector<char> kept(1 << 13);
  const auto make = [&] {
    LinearBlocks<float> blocks{linear_blocks.data(), nullptr, 2, 125, 3150, 280, true, kept.data()};
    Carver memory(nullptr);  // nothing is taken from it
    const LinearPlans<float> plans = cut_linear_plans(blocks, memory);
    check::holds(memory.used() == 0, "all are kept");
    for (const LinearPlan<float>& plan : {plans.map, plans.input, plans.weights}) {
      check::holds(make_linear_plan(plan, nullptr) == nullptr, "no error");
    }
    return plans;
  };
  const auto has_tiles = [](const LinearPlans<float>& plans, int map, int input, int weights) {
    check::holds(*plans.map.tiles == map, "tiles of the map");
    check::holds(*plans.input.tiles == input, "tiles of the gradient of the input");
    check::holds(*plans.weights.tiles == weights, "tiles of the gradient of weights");
  };
  check::for_orders([&] {
    std::fill(kept.begin(), kept.end(), '\0');
    const LinearPlans<float> plans = make();
    has_tiles(plans, 6, 3, 6);
    *plans.map.tiles = *plans.input.tiles = *plans.weights.tiles = 77;
    has_tiles(make(), 77, 77, 77);
    linear_blocks[0].mul_out = 32;
    has_tiles(make(), 4, 3, 4);
    linear_blocks[0].mul_out = 70;
  });
});

constexpr int64_t kMebibyte = 1 << 20;

void* kept_for(int64_t table, CUstream_st stream, int64_t bytes = 64) {
  return kept_memory(TableKey{table}, bytes, &stream).get();
}

const bool apart = check::add("every stream and graph keeps plans of its own", [] {
  const int64_t before = equigeo_plans_made();
  // Handles are the same: streams are distinguished by their numbers.
  const std::vector<CUstream_st> queues{{0, 0}, {1, 0}, {2, 0}, {1, 1}, {1, 2}, {2, 2}};
  std::vector<void*> memory;
  for (const CUstream_st& queue : queues) {
    memory.push_back(kept_for(1, queue));
    check::holds(*static_cast<char*>(memory.back()) == 0, "zeros at first");
    *static_cast<char*>(memory.back()) = 1;
  }
  for (size_t n = 0; n < queues.size(); ++n) {
    check::holds(kept_for(1, queues[n]) == memory[n], "found again");
    check::holds(std::count(memory.begin(), memory.end(), memory[n]) == 1, "not shared");
    check::holds(*static_cast<char*>(memory[n]) == 1, "with what was there");
  }
  check::holds(kept_for(2, {1, 0}) != memory[1], "another table");
  check::holds(equigeo_plans_made() == before + 7, "made once each");
  check::holds(kept_for(3, {1, 0}, 0) == nullptr, "nothing to keep");
});

const bool bounded = check::add("graphs keep their plans and take no room from other calls", [] {
  const CUstream_st stream{1, 0};
  std::vector<void*> graphs;
  for (uint64_t graph = 10; graph < 13; ++graph) {
    graphs.push_back(kept_for(1, {1, graph}, 20 * kMebibyte));
    check::holds(graphs.back() != nullptr, "room for a graph");
  }
  check::holds(kept_for(1, {1, 13}, 20 * kMebibyte) == nullptr, "no room for another one");
  const void* first = kept_for(1, stream);
  const void* second = kept_for(2, stream);
  check::holds(kept_for(1, stream) == first && kept_for(2, stream) == second, "calls keep two");
  for (int64_t table = 100; table < 103; ++table) {
    kept_for(table, stream, 30 * kMebibyte);
  }
  const int64_t before = equigeo_plans_made();
  check::holds(kept_for(102, stream, 30 * kMebibyte) != nullptr, "the last two fit");
  check::holds(kept_for(101, stream, 30 * kMebibyte) != nullptr, "the last two fit");
  check::holds(equigeo_plans_made() == before, "kept");
  kept_for(1, stream);
  check::holds(equigeo_plans_made() == before + 1, "forgotten for larger ones");
  for (uint64_t graph = 10; graph < 13; ++graph) {
    check::holds(kept_for(1, {1, graph}, 20 * kMebibyte) == graphs[graph - 10], "graphs keep");
  }
});

// Of 64 scalars with a scalar, which no kernel is compiled ahead for; the first one of MACE.
constexpr int kNumbers[] = {1, 1, 1, 1, 64, 0, 0, 0, 0};
constexpr int kMace[] = {16, 1, 1, 4, 128, 0, 0, 0, 0, 0, 1, 1, 0, 2, 2, 0, 3, 3};

const bool loaded = check::add("kernels that are loaded are used where they are trusted", [] {
  const char* const names[LoadedKernels::kCount] = {"a", "b", "c", "d", "e", "f"};
  char message[64] = "";
  PathTable<float> table{};
  table.count = table.dim_y = 1;
  table.dim_x = table.dim_weight = table.dim_out = 64;
  const auto found = [&](int64_t device) { return loaded_kernels(table, device); };
  const int broken = equigeo_load_kernels(kNumbers, "no cubin", names, message, sizeof(message));
  check::holds(broken == -1 && std::string(message) == "cudaErrorInvalidImage", "the error");
  const int entry = equigeo_load_kernels(kNumbers, "cubin", names, message, sizeof(message));
  check::holds(entry == 0 && found(2) == nullptr, "loaded, not yet used");
  equigeo_test_kernels(entry);
  check::holds(found(2) != nullptr && found(2)->kernel[1] == names[1], "used by a test");
  std::thread([&] { check::holds(found(2) == nullptr, "by no other thread"); }).join();
  equigeo_test_kernels(-1);
  check::holds(found(2) == nullptr, "used no more");
  equigeo_trust_kernels(entry, 2);
  check::holds(found(2) != nullptr && found(1) == nullptr, "used on one device");
  find_loaded(table, 2);
  const TableKey key = key_of(table, 2);
  find_loaded(table, 1);
  check::holds(table.loaded == nullptr && key_of(table, 2) != key, "plans of their own");
  table.dim_weight = 65;
  check::holds(found(2) == nullptr, "of these sizes alone");
});

const bool ahead = check::add("tables that are compiled ahead are told from others", [] {
  int64_t sizes[] = {4, 128, 16, 4 * 128, 16 * 128};
  check::holds(equigeo_knows_table(kMace, sizes) == 2, "that of MACE");
  int numbers[std::size(kMace)];
  std::copy(std::begin(kMace), std::end(kMace), numbers);
  numbers[1] = 0;
  check::holds(equigeo_knows_table(numbers, sizes) == 1, "another one of its sizes");
  sizes[1] = 64;
  check::holds(equigeo_knows_table(numbers, sizes) == 0, "other sizes");
});

}  // namespace

// Stands in for the driver.
const char* load_kernels(
    const void* cubin, const char* const* symbols, const void* (&kernel)[LoadedKernels::kCount]) {
  if (std::string(static_cast<const char*>(cubin)) != "cubin") {
    return "cudaErrorInvalidImage";
  }
  std::copy(symbols, symbols + LoadedKernels::kCount, kernel);
  return nullptr;
}

}  // namespace equigeo
