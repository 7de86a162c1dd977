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

#ifdef EQUIGEO_SMALL_CHUNKS
// On the simulator small problems take several chunks.
constexpr int64_t kChunkBytes = 1, kLeastOfChunk = 6;
#else
constexpr int64_t kChunkBytes = 256 << 20, kLeastOfChunk = 64;
#endif

// Edges whose numbers are in scratch memory at once: so many that their rows give every
// multiprocessor of a large card some blocks, and at least the rows of a tile of matrix products.
// By the problem alone, so that bits are the same.
template <class T>
int64_t chunk_of(int64_t edges, int64_t numbers_of_edge) {
  constexpr int64_t kNumbers = kChunkBytes / sizeof(T);
  const int64_t fit =
      kNumbers / (numbers_of_edge < 1 ? 1 : numbers_of_edge) / kLeastOfChunk * kLeastOfChunk;
  const int64_t chunk = fit < kLeastOfChunk ? kLeastOfChunk : fit;
  return edges < chunk ? edges : chunk;
}

}  // namespace equigeo
