#include "simulator/shared_memory.h"

#include <cstring>

#include "simulator/error.h"

namespace equigeo::simulator {

void SharedMemory::Piece::poison() { std::memset(bytes.get(), kPoison, size); }

void SharedMemory::begin_grid(int64_t dynamic_bytes, int64_t most, const char* device) {
  variables_.clear();
  dynamic_.size = static_cast<size_t>(dynamic_bytes);
  dynamic_.bytes.reset(new char[dynamic_.size]);
  used_ = dynamic_bytes;
  most_ = most;
  device_ = device;
}

void SharedMemory::begin_block() {
  dynamic_.poison();
  for (Piece& piece : variables_) {
    piece.poison();
  }
}

void* SharedMemory::variable(const void* key, size_t bytes) {
  for (Piece& piece : variables_) {
    if (piece.key == key) {
      return piece.bytes.get();
    }
  }
  used_ += static_cast<int64_t>(bytes);
  if (used_ > most_) {
    refuse(
        "a block has ", used_, " bytes of shared memory, of which this kernel may have ", most_,
        " on ", device_);
  }
  variables_.push_back({key, bytes, std::unique_ptr<char[]>(new char[bytes])});
  variables_.back().poison();
  return variables_.back().bytes.get();
}

bool SharedMemory::contains(const void* address) const {
  const auto inside = [address](const Piece& piece) {
    return piece.bytes.get() <= address && address < piece.bytes.get() + piece.size;
  };
  for (const Piece& piece : variables_) {
    if (inside(piece)) {
      return true;
    }
  }
  return inside(dynamic_);
}

SharedMemory& shared_memory() {
  static SharedMemory memory;
  return memory;
}

}  // namespace equigeo::simulator
