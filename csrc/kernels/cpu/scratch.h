// Memory of one call of a kernel, cut into aligned pieces.
#pragma once

#include <stdint.h>

namespace equigeo {
namespace {

template <class T>
class Scratch {
 public:
  explicit Scratch(int64_t elements)
      : memory_(static_cast<char*>(__builtin_malloc(elements * sizeof(T) + kSlack))) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(memory_);
    next_ = reinterpret_cast<T*>((address + kAlign - 1) / kAlign * kAlign);
  }
  ~Scratch() { __builtin_free(memory_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  bool failed() const { return memory_ == nullptr; }

  T* take(int64_t elements) {
    T* piece = next_;
    next_ += round_up(elements);
    return piece;
  }

  // What `take` uses up.
  static int64_t round_up(int64_t elements) {
    constexpr int64_t kStep = kAlign / sizeof(T);
    return (elements + kStep - 1) / kStep * kStep;
  }

 private:
  static constexpr int64_t kAlign = 64, kSlack = 16 * kAlign;
  char* memory_;
  T* next_;
};

}  // namespace
}  // namespace equigeo
