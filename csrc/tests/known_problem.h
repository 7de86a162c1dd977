// Convolutions of known path tables, and how they change along tangents of their operands, on a
// graph with targets of 0, 1 and 11 edges.
#pragma once

#include <algorithm>

#include "kernels/cuda/edge_list.h"
#include "kernels/cuda/loaded_kernels.h"
#include "kernels/cuda/numbered_table.h"
#include "kernels/cuda/operand_tangents.h"
#include "kernels/cuda/plan.h"
#include "math/dual.h"
#include "simulated.h"

namespace equigeo {
namespace {

constexpr const char* kTangents[] = {"", "xyw", "yw", "xw", "xy"};
constexpr int64_t kSources = 4, kTargets3 = 3, kEdges12 = 12;

// Of 64 scalars and 32 vectors, in two parts, whose kernels are not compiled ahead.
constexpr int kNumbers[] = {4, 0, 2, 5, 64, 0, 32, 1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1};
constexpr KnownTable kNumbered = numbered_table(kNumbers);

// A table that is known, with random coefficients, and weights in the opposite order where their
// order is not known. Where components are inside, edges share weights.
struct Problem {
  const KnownTable& known;
  PathTable<float> table{};
  std::vector<Path> paths;
  std::vector<Entry> entries;
  std::vector<float> values, x, y, weight;
  int64_t weight_stride;
  bool second = false;
  std::vector<float> x_tangent, y_tangent, weight_tangent;  // empty where they are zero
  std::vector<int64_t> source, ptr{0, 0, 1, 12}, order;
  std::vector<char> scratch;

  Problem(const KnownTable& given, bool ir_mul) : known(given) {
    const auto block = [&](int64_t offset, int64_t copies, int64_t d) {
      return Segment{offset, copies, d, ir_mul ? 1 : d, ir_mul ? copies : 1};
    };
    const int weights = known.before_weight(known.paths);
    for (int p = 0; p < known.paths; ++p) {
      const KnownPath& path = known.path[p];
      const int64_t first = static_cast<int64_t>(entries.size());
      const int d2 = path.d2(), d3 = path.d3(), mul = known.mul(p);
      for (int n = 0; n < path.d1() * d2 * d3; ++n) {
        if (path.couples(n / d3 / d2, n / d3 % d2, n % d3)) {
          entries.push_back({n / d3 / d2, n / d3 % d2, n % d3});
        }
      }
      paths.push_back(
          {block(known.before_x(path.segment), mul, path.d1()), block(path.before_y(), 1, d2),
           block(known.before_out(p), mul, d3),
           known.in_order ? known.before_weight(p) : weights - known.before_weight(p + 1), first,
           static_cast<int64_t>(entries.size())});
    }
    table.count = known.paths;
    table.coefficients = static_cast<int64_t>(entries.size());
    table.dim_x = known.before_x(known.segments);
    table.dim_y = known.second;
    table.dim_weight = known.before_weight(known.paths);
    table.dim_out = known.before_out(known.paths);
    table.weighted = true;
    table.ir_mul = ir_mul;
    values = check::normal<float>(table.coefficients, 1);
    x = check::normal<float>(kSources * table.dim_x, 2);
    y = check::normal<float>(kEdges12 * table.dim_y, 3);
    weight = check::normal<float>(kEdges12 * table.dim_weight, 4);
    weight_stride = ir_mul ? table.dim_weight : 0;
    for (int64_t n = table.dim_weight; !ir_mul && n < kEdges12 * table.dim_weight; ++n) {
      weight[n] = weight[n - table.dim_weight];
    }
    for (int64_t e = 0; e < kEdges12; ++e) {
      source.push_back(e * e % 3);  // one has none
      order.push_back((e * 5 + 2) % kEdges12);
    }
  }

  // Tangents of some operands, of x, y and weights w; without any, nothing changes.
  void add_tangents(const std::string& of) {
    const auto drawn = [&](char name, const std::vector<float>& like, unsigned seed) {
      const bool has = of.find(name) != std::string::npos;
      return check::normal<float>(has ? static_cast<int64_t>(like.size()) : 0, seed);
    };
    second = !of.empty();
    x_tangent = drawn('x', x, 6);
    y_tangent = drawn('y', y, 7);
    weight_tangent = drawn('w', weight, 8);
  }

  // The tangents, where those of x have been moved.
  OperandTangents<float> tangents(const std::vector<float>& moved) const {
    const auto or_null = [](const std::vector<float>& numbers) {
      return numbers.empty() ? nullptr : numbers.data();
    };
    return {or_null(moved), or_null(y_tangent), or_null(weight_tangent)};
  }

  // Weights as kernels read them: of those that edges share, the first row alone.
  std::vector<float> given_weights() const {
    std::vector<float> given = weight;
    if (weight_stride == 0) {
      std::fill(given.begin() + table.dim_weight, given.end(), NAN);
    }
    return given;
  }

  // A number of an operand with its tangent, and what is wanted of a product of these.
  static Dual<double> with_tangent(
      const std::vector<float>& value, const std::vector<float>& tangent, int64_t at) {
    return {value[at], tangent.empty() ? 0 : tangent[at]};
  }
  double wanted_part(Dual<double> product) const { return second ? product.slope : product.value; }

  Plans<float> planned() {
    table.path = paths.data();
    table.entry = entries.data();
    table.value = values.data();
    scratch = std::vector<char>(1 << 20, '\xff');  // where pieces of the last one end no more
    Carver memory(scratch.data());
    const Plans<float> plans = cut_plans(table, memory);
    check::holds(make_plans(table, plans, nullptr) == nullptr, "planned");
    return plans;
  }

  EdgeList by_target() const {
    return {kTargets3, kEdges12, kSources, ptr.data(), nullptr, order.data(), source.data()};
  }

  // Rows with components outside: those of x, or of the output.
  std::vector<float> outside(const std::vector<float>& rows, bool out) const {
    const int64_t dim = out ? table.dim_out : table.dim_x;
    std::vector<float> moved(rows.size());
    for (int64_t row = 0; row < static_cast<int64_t>(rows.size()) / dim; ++row) {
      for (const Path& path : paths) {
        const Segment& s = out ? path.out : path.x;
        for (int64_t n = 0; n < s.d * s.mul; ++n) {
          moved[row * dim + s.offset + n] =
              rows[row * dim + s.offset + n % s.mul * s.copy + n / s.mul * s.step];
        }
      }
    }
    return moved;
  }

  // Call visit(coefficient, x, y, weight, out) with the indices of all terms of the convolution.
  template <class Visit>
  void for_terms(const Visit& visit) const {
    for (int64_t target = 0; target < kTargets3; ++target) {
      for (int64_t k = ptr[target]; k < ptr[target + 1]; ++k) {
        const int64_t own = order[k], other = source[k];
        for (const Path& path : paths) {
          for (int64_t n = path.first; n < path.last; ++n) {
            const Entry& entry = entries[n];
            for (int64_t u = 0; u < path.x.mul; ++u) {
              const auto at = [&](const Segment& s, int64_t component) {
                return s.offset + u * s.copy + component * s.step;
              };
              visit(
                  1.0 * values[n], other * table.dim_x + at(path.x, entry.i),
                  own * table.dim_y + path.y.offset + entry.j * path.y.step,
                  own * table.dim_weight + path.weight + u,
                  target * table.dim_out + at(path.out, entry.k));
            }
          }
        }
      }
    }
  }
};

}  // namespace
}  // namespace equigeo
