// Convolutions of path tables that have kernels of their own.
#include "known_problem.h"

#include "kernels/cuda/plan.cu"
#include "kernels/cuda/sum_products.cu"
#include "kernels/cuda/sum_targets.cu"

namespace equigeo {
namespace {

struct Sums : Problem {
  std::vector<float> out;

  using Problem::Problem;

  // With `alone` nothing but the table's own kernel adds up.
  void run(bool alone) {
    out.assign(static_cast<size_t>(kTargets3 * table.dim_out), NAN);
    const Plans<float> plans = planned();
    if (alone) {
      plans.by_out.totals->tiles = 0;
    }
    const std::vector<float> given = given_weights();
    const std::vector<float> moved = outside(x, false), tangent = outside(x_tangent, false);
    SumProducts<float> op{};
    op.plan = plans.by_out;
    op.edges = by_target();
    op.x = moved.data();
    op.y = y.data();
    op.weight = given.data();
    op.weight_stride = weight_stride;
    op.out = out.data();
    op.x_ir_mul = true;
    op.second = second;
    op.tangents = tangents(tangent);
    check::holds(sum_products(op, nullptr) == nullptr, "summed");
  }

  std::vector<double> wanted() const {
    std::vector<double> sums(out.size());
    for_terms([&](double value, int64_t at_x, int64_t at_y, int64_t at_weight, int64_t at_out) {
      sums[at_out] +=
          value * wanted_part(
                      with_tangent(x, x_tangent, at_x) * with_tangent(y, y_tangent, at_y) *
                      with_tangent(weight, weight_tangent, at_weight));
    });
    return sums;
  }
};

const bool alone = check::add("a kernel of its own sums all rows of a table", [] {
  for (const KnownTable* known : kKnownTables) {
    for (const bool ir_mul : {true, false}) {
      for (const char* tangents : kTangents) {
        Sums problem(*known, ir_mul);
        problem.add_tangents(tangents);
        std::vector<float> first;
        check::for_orders([&] {
          problem.run(true);
          check::all_near(problem.out, problem.wanted(), 1e-5);  // 600 terms in float32
          first = first.empty() ? problem.out : first;
          check::holds(problem.out == first, "equal bits in every order");
        });
      }
    }
  }
});

const bool another = check::add("a table of the same sizes has the kernel of all tables", [] {
  const auto differ = [](const std::function<void(Problem&)>& change,
                         const KnownTable& table = kMaceMedium) {
    for (const char* tangents : {"", "xyw"}) {
      Sums problem(table, true);
      problem.add_tangents(tangents);
      change(problem);
      problem.run(false);
      check::all_near(problem.out, problem.wanted(), 1e-5);  // 600 terms in float32
      problem.run(true);
      check::holds(std::isnan(problem.out[0]), "its own kernel leaves it alone");
    }
  };
  differ([](Problem& problem) { std::swap(problem.paths[0].weight, problem.paths[1].weight); });
  differ([](Problem& problem) { problem.entries[1].i ^= 1; });
  differ([](Problem& problem) { std::swap(problem.entries[1], problem.entries[2]); });
  differ([](Problem& problem) { problem.paths[1].weight = problem.paths[0].weight; }, kNequip1);
  differ([](Problem& problem) { problem.paths[1].weight += 16; }, kNequip1);
  differ([](Problem& problem) { std::swap(problem.paths[0].x, problem.paths[2].x); }, kNequip1);
});

const bool known = check::add("the kernel of all tables leaves a known one alone", [] {
  for (const char* tangents : {"", "xyw"}) {
    Sums problem(kMaceSmall, true);
    problem.add_tangents(tangents);
    problem.run(true);
    const std::vector<float> own = problem.out;
    problem.run(false);
    check::holds(problem.out == own, "the same bits");
  }
});

const bool loaded = check::add("kernels that are loaded sum the rows of their table", [] {
  const LoadedKernels kernels{
      kNumbered,
      {reinterpret_cast<const void*>(sum_known<kNumbered, float>),
       reinterpret_cast<const void*>(sum_known<kNumbered, Dual<float>>)}};
  for (const bool ir_mul : {true, false}) {
    for (const char* tangents : kTangents) {
      Sums problem(kNumbered, ir_mul);
      problem.table.loaded = &kernels;
      problem.add_tangents(tangents);
      check::for_orders([&] {
        problem.run(true);
        check::all_near(problem.out, problem.wanted(), 1e-5);  // 600 terms in float32
      });
      std::swap(problem.entries[1], problem.entries[2]);
      problem.run(true);
      check::holds(std::isnan(problem.out[0]), "they leave another table of these sizes alone");
    }
  }
});

}  // namespace
}  // namespace equigeo
