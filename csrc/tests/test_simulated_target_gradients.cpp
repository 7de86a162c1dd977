// Gradients of convolutions of path tables that have kernels of their own.
#include "known_problem.h"

#include "kernels/cuda/differentiate_products.cu"
#include "kernels/cuda/differentiate_targets.cu"
#include "kernels/cuda/plan.cu"

namespace equigeo {
namespace {

struct Gradients : Problem {
  std::vector<float> grad, grad_x, grad_y, grad_weight;
  std::vector<int64_t> target{1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}, back_ptr{0}, back_order;

  Gradients(const KnownTable& given, bool ir_mul)
      : Problem(given, ir_mul), grad(check::normal<float>(kTargets3 * table.dim_out, 5)) {
    for (int64_t row = 0; row < kSources; ++row) {
      for (int64_t k = 0; k < kEdges12; ++k) {
        if (source[k] == row) {
          back_order.push_back(k);
        }
      }
      back_ptr.push_back(static_cast<int64_t>(back_order.size()));
    }
  }

  // By the kernel of all tables, which leaves known ones to the kernels of their own, launched
  // before for a chunk of edges at a time, or for all in the way that is given.
  using Launch = std::function<void(const DifferentiateProducts<float>&, const TargetGradients&)>;
  void run(int64_t chunk, bool own, const Launch& launch = nullptr) {
    const Plans<float> plans = planned();
    const std::vector<float> moved_x = outside(x, false), moved_grad = outside(grad, true);
    const std::vector<float> given = given_weights();
    const std::vector<float> moved_tangent = outside(x_tangent, false);
    std::vector<float> messages(static_cast<size_t>(chunk * known.messages()), NAN);
    std::vector<float> seconds(static_cast<size_t>(known.slices() * chunk * known.second), NAN);
    grad_x.assign(x.size(), NAN);
    grad_y.assign(y.size(), NAN);
    grad_weight.assign(weight.size(), NAN);
    DifferentiateProducts<float> op{};
    op.plan = plans.by_first;
    op.edges = {kSources,          kEdges12,     kTargets3,    back_ptr.data(),
                back_order.data(), order.data(), target.data()};
    op.grad = moved_grad.data();
    op.x = moved_x.data();
    op.y = y.data();
    op.weight = given.data();
    op.weight_stride = weight_stride;
    op.grad_x = op.sums = grad_x.data();
    op.grad_y = grad_y.data();
    op.grad_weight = grad_weight.data();
    op.in_ir_mul = true;
    op.second = second;
    op.tangents = tangents(moved_tangent);
    if (own) {
      const TargetGradients by{plans.by_out,   by_target(), messages.data(),
                               seconds.data(), chunk,       true};
      if (launch) {
        launch(op, by);
      } else {
        check::holds(differentiate_targets(op, by, nullptr), "launched");
      }
    }
    op.known = true;
    check::holds(differentiate_products(op, nullptr) == nullptr, "differentiated");
  }

  void compare() const {
    std::vector<double> by_x(x.size()), by_y(y.size()), by_weight(weight.size());
    for_terms([&](double value, int64_t at_x, int64_t at_y, int64_t at_weight, int64_t at_out) {
      const Dual<double> at[] = {
          with_tangent(x, x_tangent, at_x), with_tangent(y, y_tangent, at_y),
          with_tangent(weight, weight_tangent, at_weight)};
      value *= grad[at_out];
      by_x[at_x] += value * wanted_part(at[1] * at[2]);
      by_y[at_y] += value * wanted_part(at[0] * at[2]);
      by_weight[at_weight] += value * wanted_part(at[0] * at[1]);
    });
    check::all_near(grad_x, by_x, 1e-5);  // 1,000 terms in float32
    check::all_near(grad_y, by_y, 1e-5);  // 20,000
    check::all_near(grad_weight, by_weight, 1e-5);
  }
};

const bool alone = check::add("kernels of their own differentiate convolutions of a table", [] {
  for (const KnownTable* known : kKnownTables) {
    for (const bool ir_mul : {true, false}) {
      for (const int64_t chunk : {kEdges12, int64_t{5}}) {
        for (const char* tangents : kTangents) {
          Gradients problem(*known, ir_mul);
          problem.add_tangents(tangents);
          std::vector<float> first;
          check::for_orders([&] {
            problem.run(chunk, true);
            problem.compare();
            std::vector<float> all = problem.grad_x;
            all.insert(all.end(), problem.grad_y.begin(), problem.grad_y.end());
            all.insert(all.end(), problem.grad_weight.begin(), problem.grad_weight.end());
            first = first.empty() ? all : first;
            check::holds(all == first, "equal bits in every order");
          });
        }
      }
    }
  }
});

const bool together = check::add("a block takes one target after another", [] {
  Gradients problem(kMaceSmall, true);
  check::for_orders([&] {
    problem.run(kEdges12, true, [](const auto& op, const TargetGradients& by) {
      const EdgeRange all{0, kEdges12};
      const dim3 block(kWarp, kMaceSmall.warps);
      launch_kernel(differentiate_known<kMaceSmall, float>, 1, block, 0, nullptr, op, by, all);
      launch_kernel(sum_messages<kMaceSmall>, 1, block, 0, nullptr, op, by, all);
    });
    problem.compare();
  });
});

const bool loaded =
    check::add("kernels that are loaded differentiate convolutions of their table", [] {
      const LoadedKernels kernels{
          kNumbered,
          {nullptr, nullptr, reinterpret_cast<const void*>(differentiate_known<kNumbered, float>),
           reinterpret_cast<const void*>(differentiate_known<kNumbered, Dual<float>>),
           reinterpret_cast<const void*>(sum_seconds<kNumbered>),
           reinterpret_cast<const void*>(sum_messages<kNumbered>)}};
      for (const bool ir_mul : {true, false}) {
        for (const int64_t chunk : {kEdges12, int64_t{5}}) {
          for (const char* tangents : kTangents) {
            Gradients problem(kNumbered, ir_mul);
            problem.table.loaded = &kernels;
            problem.add_tangents(tangents);
            problem.run(chunk, true);
            problem.compare();
            problem.run(chunk, false);
            check::holds(std::isnan(problem.grad_x[0]), "that of all tables leaves it alone");
          }
        }
      }
    });

const bool another = check::add("gradients of another table have the kernel of all tables", [] {
  for (const char* tangents : {"", "xyw"}) {
    Gradients problem(kMaceSmall, true);
    problem.add_tangents(tangents);
    problem.run(kEdges12, false);
    check::holds(std::isnan(problem.grad_x[0]), "it leaves a known one alone");
    std::swap(problem.paths[0].weight, problem.paths[1].weight);
    problem.run(kEdges12, true);
    problem.compare();
  }
});

}  // namespace
}  // namespace equigeo
