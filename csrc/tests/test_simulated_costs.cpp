// What a warp asks of memory, for patterns whose cost is known.
#include <vector>

#include "check.h"
#include "simulator/warp_accesses.h"

namespace equigeo {
namespace {

using simulator::WarpAccess;

// Lane l reads `bytes` at l * stride.
WarpAccess strided(unsigned bytes, uintptr_t stride, unsigned lanes = 32, uintptr_t begin = 4096) {
  WarpAccess access;
  access.bytes = bytes;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    access.lanes |= 1u << lane;
    access.address[lane] = begin + lane * stride;
  }
  return access;
}

void has_sectors(const WarpAccess& access, int64_t touched, int64_t least) {
  const simulator::Sectors sectors = sectors_of(access);
  check::near(static_cast<double>(sectors.touched), static_cast<double>(touched), 0);
  check::near(static_cast<double>(sectors.least), static_cast<double>(least), 0);
}

void has_turns(const WarpAccess& access, int64_t taken, int64_t least) {
  const simulator::BankTurns turns = bank_turns_of(access);
  check::near(static_cast<double>(turns.taken), static_cast<double>(taken), 0);
  check::near(static_cast<double>(turns.least), static_cast<double>(least), 0);
}

const bool sectors = check::add("global memory comes in sectors of 32 bytes", [] {
  has_sectors(strided(4, 4), 4, 4);
  has_sectors(strided(8, 8), 8, 8);
  has_sectors(strided(4, 4, 32, 4100), 5, 4);  // not aligned
  has_sectors(strided(4, 8), 8, 4);            // every other number
  has_sectors(strided(4, 64), 32, 4);
  has_sectors(strided(4, 0), 1, 1);  // all the same
  has_sectors(strided(4, 4, 3), 1, 1);
});

const bool banks = check::add("shared memory has 32 banks of 4 bytes", [] {
  has_turns(strided(4, 4), 1, 1);
  has_turns(strided(4, 8), 2, 1);
  has_turns(strided(4, 128), 32, 1);  // one bank for all
  has_turns(strided(4, 132), 1, 1);   // an odd stride
  has_turns(strided(4, 0), 1, 1);     // one word for all
  has_turns(strided(8, 8), 2, 2);     // two halves of a warp
  has_turns(strided(8, 128), 32, 2);
  has_turns(strided(16, 16), 4, 4);
  has_turns(strided(16, 0), 1, 1);
  has_turns(strided(8, 8, 16), 1, 1);
  has_turns(strided(2, 2), 1, 1);
});

const bool instructions =
    check::add("lanes that come by an instruction the same time go together", [] {
      simulator::WarpAccesses accesses;
      const char code[2] = {};
      for (unsigned lane = 0; lane < 4; ++lane) {
        for (unsigned time = 0; time <= lane; ++time) {
          accesses.add(lane, &code[0], 4096 + 128 * time + 4 * lane, 4);
        }
        accesses.add(lane, &code[1], 8192, 8);
      }
      std::vector<uint32_t> lanes;
      const auto take = [&](const void* from, const WarpAccess& access) {
        if (from == &code[0]) {
          lanes.push_back(access.lanes);
        } else {
          check::holds(access.bytes == 8 && access.lanes == 0xf, "the other instruction");
        }
      };
      accesses.flush(take);
      check::holds(lanes == std::vector<uint32_t>({0xf, 0xe, 0xc, 0x8}), "fewer lanes each time");
      accesses.flush([](const void*, const WarpAccess&) { check::fail("accesses are forgotten"); });
    });

}  // namespace
}  // namespace equigeo
