// Softmax and sums over edges against plain loops.
#include "math/segment_attention.h"

#include "check.h"
#include "kernels/cpu/pack.h"
#include "math/gather_sum.h"

namespace equigeo {
namespace {

constexpr int64_t kHeads = 3, kEdges = 11;
const int64_t kPtr[] = {0, 5, 5, 6, kEdges};  // one row is empty, one has a single edge

template <class T>
std::vector<T> softmax(std::vector<T> logits) {
  for (int64_t row = 0; row < 4; ++row) {
    const EdgeRange range = edges_of(kPtr, row);
    for (int64_t h = 0; h < kHeads; ++h) {
      T* weights = logits.data() + h;
      shift_row(range, kHeads, weights, weights);
      for (int64_t e = range.begin; e < range.end; ++e) {
        weights[e * kHeads] = exp_of_nonpositive(weights[e * kHeads]);
      }
      if (range.begin < range.end) {
        normalize_row(range, kHeads, weights);
      }
    }
  }
  return logits;
}

std::vector<double> naive_softmax(const std::vector<double>& logits) {
  std::vector<double> weights(logits.size());
  for (int64_t row = 0; row < 4; ++row) {
    for (int64_t h = 0; h < kHeads; ++h) {
      double total = 0;
      for (int64_t e = kPtr[row]; e < kPtr[row + 1]; ++e) {
        total += std::exp(logits[e * kHeads + h]);
      }
      for (int64_t e = kPtr[row]; e < kPtr[row + 1]; ++e) {
        weights[e * kHeads + h] = std::exp(logits[e * kHeads + h]) / total;
      }
    }
  }
  return weights;
}

template <class T>
std::vector<double> as_double(const std::vector<T>& numbers) {
  return {numbers.begin(), numbers.end()};
}

const bool forward = check::add_for_floats("softmax over the edges of each row", [](auto zero) {
  using T = decltype(zero);
  const std::vector<T> logits = check::normal<T>(kEdges * kHeads, 4);
  const std::vector<double> want = naive_softmax(as_double(logits));
  check::all_near(softmax(logits), want, 10 * check::epsilon<T>);
  std::vector<T> shifted = logits;
  shifted[0] += T(0.1);
  check::holds(
      check::fails([&] { check::all_near(softmax(shifted), want, 10 * check::epsilon<T>); }),
      "negative control: other logits give the same weights");
});

const bool large = check::add_for_floats("softmax of large logits does not overflow", [](auto z) {
  using T = decltype(z);
  const std::vector<T> weights = softmax(std::vector<T>(kEdges * kHeads, T(1e30)));
  check::near(weights[0], 1.0 / 5, 10 * check::epsilon<T>);
});

const bool backward =
    check::add_for_floats("gradient of a softmax against differences", [](auto z) {
      using T = decltype(z);
      const std::vector<double> logits = check::normal<double>(kEdges * kHeads, 5);
      const std::vector<double> arriving = check::normal<double>(kEdges * kHeads, 6);
      const auto loss = [&](const std::vector<double>& at) {
        const std::vector<double> weights = naive_softmax(at);
        double sum = 0;
        for (size_t i = 0; i < at.size(); ++i) {
          sum += arriving[i] * weights[i];
        }
        return sum;
      };
      std::vector<double> want(logits.size());
      for (size_t i = 0; i < logits.size(); ++i) {
        std::vector<double> above = logits, below = logits;
        above[i] += 1e-5;
        below[i] -= 1e-5;
        want[i] = (loss(above) - loss(below)) / 2e-5;
      }
      const std::vector<T> attention = softmax(std::vector<T>(logits.begin(), logits.end()));
      std::vector<T> slope(arriving.begin(), arriving.end());
      for (int64_t row = 0; row < 4; ++row) {
        for (int64_t h = 0; h < kHeads; ++h) {
          softmax_backward_row(edges_of(kPtr, row), kHeads, attention.data() + h, slope.data() + h);
        }
      }
      check::all_near(slope, want, 1e-8 + 10 * check::epsilon<T>);
    });

template <class Pack, int N, class T>
void check_gather() {
  constexpr int64_t kChannels = N * kWidth<Pack, T>, kRows = 7;
  const std::vector<T> rows = check::normal<T>(kRows * kChannels, 7);
  const std::vector<T> weights = check::normal<T>(kEdges * kHeads, 8);
  const std::vector<int64_t> index = {3, 0, 6, 6, 1, 2, 5, 4, 0, 3, 3};
  int stray = 0;
  const WeightedEdges<T> edges{{index.data(), kRows, &stray}, weights.data() + 1, kHeads};
  for (int64_t row = 0; row < 4; ++row) {
    std::vector<T> got(kChannels);
    gather_sum<Pack, N>(edges, edges_of(kPtr, row), rows.data(), kChannels, got.data());
    std::vector<double> want(kChannels);
    for (int64_t e = kPtr[row]; e < kPtr[row + 1]; ++e) {
      for (int64_t c = 0; c < kChannels; ++c) {
        want[c] += static_cast<double>(weights[e * kHeads + 1]) * rows[index[e] * kChannels + c];
      }
    }
    check::all_near(got, want, 10 * check::epsilon<T>);
  }
  check::holds(stray == 0, "no index is out of range");
}

const bool gather = check::add_for_floats("weighted sums of gathered rows", [](auto zero) {
  using T = decltype(zero);
  check_gather<T, 1, T>();
  check_gather<T, 3, T>();
  check_gather<WidePack<T>, 2, T>();
});

const bool stray = check::add("an index out of range reads row 0 and is reported", [] {
  const int64_t entries[] = {1, -1, 2};
  int seen = 0;
  const Index index{entries, 2, &seen};
  check::holds(index[0] == 1 && seen == 0, "what is in range is read");
  check::holds(index[1] == 0 && seen == 1, "a negative index");
  seen = 0;
  check::holds(index[2] == 0 && seen == 1, "an index beyond");
});

}  // namespace
}  // namespace equigeo
