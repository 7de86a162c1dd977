// Shared memory of the block that runs.
//
// It is poisoned before every block: a card leaves there what others wrote, here whatever is read
// before it is written is NaN, or an index far outside. Each piece is an allocation of exactly as
// many bytes as were asked for, so that the address sanitizer sees the end of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "simulator/device.h"

namespace equigeo::simulator {

constexpr unsigned char kPoison = 0xff;  // all bits: NaN in every format, -1 in every integer

class SharedMemory {
 public:
  // For the blocks of one launch; `most` bytes is what its kernel may have in all.
  void begin_grid(int64_t dynamic_bytes, int64_t most, const char* device);
  void begin_block();

  char* dynamic() { return dynamic_.bytes.get(); }

  // The variable with this key, which comes to be where it is first asked for.
  void* variable(const void* key, size_t bytes);

  bool contains(const void* address) const;

  // Bytes of a block, dynamic and of all variables that any block has asked for.
  int64_t used() const { return used_; }

 private:
  struct Piece {
    const void* key = nullptr;
    size_t size = 0;
    std::unique_ptr<char[]> bytes;

    void poison();
  };

  Piece dynamic_;
  std::vector<Piece> variables_;
  int64_t used_ = 0, most_ = 0;
  const char* device_ = "";
};

SharedMemory& shared_memory();

// As in kernels/cuda/launch.cuh.
template <class T>
T* dynamic_shared() {
  return reinterpret_cast<T*>(shared_memory().dynamic());
}

template <class T>
T& static_shared() {
  static_assert(alignof(T) <= 16);
  static const char key = 0;
  return *static_cast<T*>(shared_memory().variable(&key, sizeof(T)));
}

}  // namespace equigeo::simulator
