// Convolutions of path tables that have kernels of their own.
#include "kernels/cuda/plan.cu"
#include "kernels/cuda/sum_products.cu"
#include "simulated.h"

namespace equigeo {
namespace {

constexpr int kComponents = 3;  // of every segment of the second input
constexpr int64_t kSources = 3, kTargets3 = 3, kEdges12 = 12;

// A table that is known, with dense random coefficients, on a graph with 0, 1 and 11 edges.
struct Problem {
  const KnownTable& known;
  PathTable<float> table{};
  std::vector<Path> paths;
  std::vector<Entry> entries;
  std::vector<float> values, x, y, weight, out;
  std::vector<int64_t> source, ptr{0, 0, 1, 12}, order;
  std::vector<char> scratch = std::vector<char>(1 << 20);

  Problem(const KnownTable& given, bool ir_mul) : known(given) {
    const int64_t mul = known.mul;
    const auto block = [&](int64_t offset, int64_t copies, int64_t d) {
      return Segment{offset, copies, d, ir_mul ? 1 : d, ir_mul ? copies : 1};
    };
    for (int p = 0; p < known.paths; ++p) {
      const KnownPath& path = known.path[p];
      const int64_t d1 = known.d1[path.x], first = static_cast<int64_t>(entries.size());
      for (int64_t n = 0; n < d1 * kComponents * path.d3; ++n) {
        if (n % 3 != 1) {  // rows have numbers of all lengths, none among them
          entries.push_back({n % d1, n / d1 % kComponents, n / d1 / kComponents});
        }
      }
      paths.push_back(
          {block(mul * known.before_x(path.x), mul, d1), block(p % 2 * kComponents, 1, kComponents),
           block(mul * known.before_out(p), mul, path.d3), mul * p, first,
           static_cast<int64_t>(entries.size())});
    }
    table.count = known.paths;
    table.coefficients = static_cast<int64_t>(entries.size());
    table.dim_x = mul * known.before_x(known.segments);
    table.dim_y = known.second;
    table.dim_weight = mul * known.paths;
    table.dim_out = mul * known.before_out(known.paths);
    table.weighted = true;
    table.ir_mul = ir_mul;
    values = check::normal<float>(table.coefficients, 1);
    x = check::normal<float>(kSources * table.dim_x, 2);
    y = check::normal<float>(kEdges12 * table.dim_y, 3);
    weight = check::normal<float>(kEdges12 * table.dim_weight, 4);
    for (int64_t e = 0; e < kEdges12; ++e) {
      source.push_back(e * e % kSources);
      order.push_back((e * 5 + 2) % kEdges12);
    }
  }

  // Whether the table was found to be known; with `alone` nothing but its own kernel adds up.
  bool run(bool alone) {
    table.path = paths.data();
    table.entry = entries.data();
    table.value = values.data();
    out.assign(static_cast<size_t>(kTargets3 * table.dim_out), NAN);
    std::fill(scratch.begin(), scratch.end(), '\xff');
    Carver memory(scratch.data());
    const Plans<float> plans = cut_plans(table, memory);
    check::holds(make_plans(table, plans, nullptr) == nullptr, "planned");
    if (alone) {
      plans.by_out.totals->tiles = 0;
    }
    // Rows with components outside: those of x are.
    std::vector<float> outside(x.size());
    for (int64_t row = 0; row < kSources; ++row) {
      for (int s = 0; s < known.segments; ++s) {
        const int64_t d = known.d1[s], begin = row * table.dim_x + known.mul * known.before_x(s);
        for (int64_t n = 0; n < d * known.mul; ++n) {
          const int64_t to = table.ir_mul ? n : n % d * known.mul + n / d;
          outside[begin + to] = x[begin + n];
        }
      }
    }
    SumProducts<float> op{};
    op.plan = plans.by_out;
    op.edges = {kTargets3, kEdges12, kSources, ptr.data(), nullptr, order.data(), source.data()};
    op.x = outside.data();
    op.y = y.data();
    op.weight = weight.data();
    op.weight_stride = table.dim_weight;
    op.out = out.data();
    op.x_ir_mul = true;
    check::holds(sum_products(op, nullptr) == nullptr, "summed");
    return plans.by_out.totals->known;
  }

  std::vector<double> wanted() const {
    std::vector<double> sums(out.size());
    for (int64_t target = 0; target < kTargets3; ++target) {
      for (int64_t k = ptr[target]; k < ptr[target + 1]; ++k) {
        const int64_t own = order[k], other = source[k];
        for (const Path& path : paths) {
          for (int64_t n = path.first; n < path.last; ++n) {
            const Entry& entry = entries[n];
            const double second =
                1.0 * values[n] * y[own * table.dim_y + path.y.offset + entry.j * path.y.step];
            for (int64_t u = 0; u < path.x.mul; ++u) {
              const auto at = [&](const Segment& s, int64_t component) {
                return s.offset + u * s.copy + component * s.step;
              };
              sums[target * table.dim_out + at(path.out, entry.k)] +=
                  second * weight[own * table.dim_weight + path.weight + u] *
                  x[other * table.dim_x + at(path.x, entry.i)];
            }
          }
        }
      }
    }
    return sums;
  }
};

const bool alone = check::add("a kernel of its own sums all rows of a table", [] {
  for (const KnownTable* known : kKnownTables) {
    for (const bool ir_mul : {true, false}) {
      Problem problem(*known, ir_mul);
      std::vector<float> first;
      check::for_orders([&] {
        check::holds(problem.run(true), "the table is known");
        check::all_near(problem.out, problem.wanted(), 1e-5);  // 200 terms in float32
        first = first.empty() ? problem.out : first;
        check::holds(problem.out == first, "equal bits in every order");
      });
    }
  }
});

const bool another = check::add("a table of the same sizes has the kernel of all tables", [] {
  Problem problem(kMaceSmall, true);
  std::swap(problem.paths[0].weight, problem.paths[1].weight);
  check::holds(!problem.run(false), "the table is another");
  check::all_near(problem.out, problem.wanted(), 1e-5);  // 200 terms in float32
  problem.run(true);
  check::holds(std::isnan(problem.out[0]), "the other kernel leaves it alone");
});

}  // namespace
}  // namespace equigeo
