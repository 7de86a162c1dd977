// Plans of path tables that are kept from call to call.
#include "kernels/cuda/plan.cu"
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

}  // namespace
}  // namespace equigeo
