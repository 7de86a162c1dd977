// The order in which threads, warps and blocks take their turns.
//
// CUDA promises none: results that depend on it are wrong on some card, some day.
#pragma once

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace equigeo::simulator {

class Order {
 public:
  enum class Kind { kForward, kReversed, kRandom };

  Order() = default;
  explicit Order(Kind kind, uint64_t seed = 0) : kind_(kind), state_(seed) {}

  bool random() const { return kind_ == Kind::kRandom; }

  // Any number below `count`, in random order.
  uint64_t pick(uint64_t count) { return next() % count; }

  // The numbers below `count` in this order, another one for each call where it is random. What an
  // order has arranged before is left as it is.
  void arrange(unsigned count, std::vector<unsigned>& to) {
    if (to.size() == count && kind_ != Kind::kRandom) {
      return;
    }
    to.resize(count);
    std::iota(to.begin(), to.end(), 0u);
    if (kind_ == Kind::kReversed) {
      for (unsigned n = 0; n < count; ++n) {
        to[n] = count - 1 - n;
      }
    } else if (kind_ == Kind::kRandom) {
      for (unsigned n = count; n > 1; --n) {
        std::swap(to[n - 1], to[pick(n)]);
      }
    }
  }

 private:
  // SplitMix64 (Steele, Lea and Flood 2014): a seed means the same order with every C++ library.
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  Kind kind_ = Kind::kForward;
  uint64_t state_ = 0;
};

}  // namespace equigeo::simulator
