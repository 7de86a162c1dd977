// Scratch memory of one call, cut into aligned pieces.
#pragma once

#include <stdint.h>

namespace equigeo {

// From a null pointer it cuts null pointers, which tells how much memory is needed.
class Carver {
 public:
  explicit Carver(void* memory) : memory_(static_cast<char*>(memory)) {}

  template <class Element>
  Element* take(int64_t count) {
    char* piece = memory_ == nullptr ? nullptr : memory_ + used_;
    const int64_t bytes = count * static_cast<int64_t>(sizeof(Element));
    used_ += (bytes + kAlign - 1) / kAlign * kAlign;
    return reinterpret_cast<Element*>(piece);
  }

  int64_t used() const { return used_; }

 private:
  static constexpr int64_t kAlign = 256;
  char* memory_;
  int64_t used_ = 0;
};

}  // namespace equigeo
