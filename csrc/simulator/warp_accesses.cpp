#include "simulator/warp_accesses.h"

#include <algorithm>
#include <set>

namespace equigeo::simulator {
namespace {

constexpr unsigned kSector = 32, kBank = 4, kBanks = 32;

}  // namespace

Sectors sectors_of(const WarpAccess& access) {
  std::set<uintptr_t> sectors, addresses;
  for (unsigned lane = 0; lane < Device::kWarp; ++lane) {
    if ((access.lanes >> lane & 1) != 0) {
      const uintptr_t begin = access.address[lane], end = begin + access.bytes;
      addresses.insert(begin);
      for (uintptr_t sector = begin / kSector; sector * kSector < end; ++sector) {
        sectors.insert(sector);
      }
    }
  }
  const int64_t bytes = static_cast<int64_t>(addresses.size()) * access.bytes;
  return {static_cast<int64_t>(sectors.size()), (bytes + kSector - 1) / kSector};
}

BankTurns bank_turns_of(const WarpAccess& access) {
  const unsigned parts = std::max(1u, access.bytes / kBank), lanes = Device::kWarp / parts;
  std::set<uintptr_t> all;
  BankTurns turns{0, 0};
  for (unsigned first = 0; first < Device::kWarp; first += lanes) {
    std::set<uintptr_t> words;
    for (unsigned lane = first; lane < first + lanes; ++lane) {
      for (unsigned n = 0; (access.lanes >> lane & 1) != 0 && n < parts; ++n) {
        words.insert(access.address[lane] / kBank + n);
      }
    }
    std::array<int64_t, kBanks> asked{};
    for (const uintptr_t word : words) {
      ++asked[word % kBanks];
    }
    turns.taken += *std::max_element(asked.begin(), asked.end());
    turns.least += (static_cast<int64_t>(words.size()) + kBanks - 1) / kBanks;
    all.insert(words.begin(), words.end());
  }
  // What all lanes read together comes at once.
  const bool one = all.size() <= parts;
  return one ? BankTurns{1, 1} : turns;
}

void WarpAccesses::add(unsigned lane, const void* code, uintptr_t address, unsigned bytes) {
  Instruction& instruction = instructions_[code];
  const unsigned time = instruction.times[lane]++;
  if (time >= instruction.accesses.size()) {
    instruction.accesses.resize(time + 1);
  }
  WarpAccess& access = instruction.accesses[time];
  access.bytes = bytes;
  access.lanes |= 1u << lane;
  access.address[lane] = address;
}

void WarpAccesses::flush(const std::function<void(const void*, const WarpAccess&)>& take) {
  for (auto& [code, instruction] : instructions_) {
    for (const WarpAccess& access : instruction.accesses) {
      take(code, access);
    }
    instruction.accesses.clear();
    instruction.times.fill(0);
  }
}

}  // namespace equigeo::simulator
