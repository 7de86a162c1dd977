// The accesses of a warp as a card makes them: all lanes of an instruction at once.
//
// Lanes run one after another here. The n-th time that a lane comes by an instruction between two
// barriers is taken for the n-th time of the others, which is so unless lanes go different ways.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "simulator/device.h"

namespace equigeo::simulator {

// One instruction of a warp that reads or writes memory.
struct WarpAccess {
  unsigned bytes = 0;  // of each lane
  uint32_t lanes = 0;  // that take part
  std::array<uintptr_t, Device::kWarp> address{};
};

// 32-byte pieces of memory that an access touches, and the least for as many different bytes.
struct Sectors {
  int64_t touched, least;
};
Sectors sectors_of(const WarpAccess& access);

// Times that shared memory is asked, which has 32 banks of 4 bytes, and the least: 8 bytes of each
// lane are read by half a warp at a time, 16 by a quarter. Lanes that read the same word share it.
struct BankTurns {
  int64_t taken, least;
};
BankTurns bank_turns_of(const WarpAccess& access);

class WarpAccesses {
 public:
  void add(unsigned lane, const void* code, uintptr_t address, unsigned bytes);

  // Hand on all accesses and forget them.
  void flush(const std::function<void(const void*, const WarpAccess&)>& take);

 private:
  struct Instruction {
    std::array<unsigned, Device::kWarp> times{};  // that each lane came by
    std::vector<WarpAccess> accesses;
  };
  std::unordered_map<const void*, Instruction> instructions_;
};

}  // namespace equigeo::simulator
