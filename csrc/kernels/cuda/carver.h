// Scratch memory of one call, cut into aligned pieces.
#pragma once

#include <stdint.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace equigeo {

#ifdef __SANITIZE_ADDRESS__
// What lies behind a piece, up to the next one, is nobody's.
constexpr int64_t kScratchGap = 256;
inline void forbid(char* from, int64_t bytes) { __asan_poison_memory_region(from, bytes); }
#else
constexpr int64_t kScratchGap = 0;
inline void forbid(char*, int64_t) {}
#endif

// From a null pointer it cuts null pointers, which measures how much memory is needed.
class Carver {
 public:
  explicit Carver(void* memory) : memory_(static_cast<char*>(memory)) {}

  template <class Element>
  Element* take(int64_t count) {
    char* piece = memory_ == nullptr ? nullptr : memory_ + used_;
    const int64_t bytes = count * static_cast<int64_t>(sizeof(Element));
    const int64_t whole = (bytes + kAlign - 1) / kAlign * kAlign + kScratchGap;
    if (piece != nullptr) {
      forbid(piece + bytes, whole - bytes);
    }
    used_ += whole;
    return reinterpret_cast<Element*>(piece);
  }

  int64_t used() const { return used_; }

 private:
  static constexpr int64_t kAlign = 256;
  char* memory_;
  int64_t used_ = 0;
};

}  // namespace equigeo
