#include "simulator/costs.h"

#include <algorithm>
#include <fstream>

#include "simulator/block.h"
#include "simulator/code_place.h"
#include "simulator/shared_memory.h"

namespace equigeo::simulator {

void Costs::grid_begins(const void* kernel) {
  kernel_ = &all_[kernel];
  ++kernel_->launches;
}

void Costs::block_begins(unsigned, unsigned threads) {
  flush();
  ++kernel_->blocks;
  kernel_->threads += threads;
  for (std::vector<WarpAccesses>& warps : warps_) {
    warps.resize((threads + Device::kWarp - 1) / Device::kWarp);
  }
}

void Costs::warp_met(unsigned, uint32_t, const SourceLocation&) {
  ++kernel_->warp_barriers;
  flush();
}

void Costs::block_met(const SourceLocation&) {
  ++kernel_->block_barriers;
  flush();
}

void Costs::accessed(const void* address, unsigned bytes, Access access, const void* code) {
  const unsigned thread = Block::current().thread().index;
  const Kind kind = shared_memory().contains(address) ? kShared
                    : access == Access::kRead         ? kLoad
                                                      : kStore;
  const auto number = reinterpret_cast<uintptr_t>(address);
  warps_[kind][thread / Device::kWarp].add(thread % Device::kWarp, code, number, bytes);
}

void Costs::flush() {
  for (WarpAccesses& warp : warps_[kLoad]) {
    warp.flush([this](const void*, const WarpAccess& access) {
      const Sectors sectors = sectors_of(access);
      ++kernel_->loads;
      kernel_->load_sectors += sectors.touched;
      kernel_->least_load_sectors += sectors.least;
    });
  }
  for (WarpAccesses& warp : warps_[kStore]) {
    warp.flush([this](const void*, const WarpAccess& access) {
      const Sectors sectors = sectors_of(access);
      ++kernel_->stores;
      kernel_->store_sectors += sectors.touched;
      kernel_->least_store_sectors += sectors.least;
    });
  }
  for (WarpAccesses& warp : warps_[kShared]) {
    warp.flush([this](const void*, const WarpAccess& access) {
      const BankTurns turns = bank_turns_of(access);
      ++kernel_->shared;
      kernel_->bank_turns += turns.taken;
      kernel_->least_bank_turns += turns.least;
    });
  }
}

void Costs::grid_ends() {
  flush();
  kernel_->shared_bytes = std::max(kernel_->shared_bytes, shared_memory().used());
}

void Costs::write(const std::string& file) const {
  std::ofstream to(file);
  for (const auto& [kernel, costs] : all_) {
    to << "{\"kernel\": \"" << function_at(kernel) << "\", \"launches\": " << costs.launches
       << ", \"blocks\": " << costs.blocks << ", \"threads\": " << costs.threads
       << ", \"loads\": " << costs.loads << ", \"load_sectors\": " << costs.load_sectors
       << ", \"least_load_sectors\": " << costs.least_load_sectors
       << ", \"stores\": " << costs.stores << ", \"store_sectors\": " << costs.store_sectors
       << ", \"least_store_sectors\": " << costs.least_store_sectors
       << ", \"shared\": " << costs.shared << ", \"bank_turns\": " << costs.bank_turns
       << ", \"least_bank_turns\": " << costs.least_bank_turns
       << ", \"warp_barriers\": " << costs.warp_barriers
       << ", \"block_barriers\": " << costs.block_barriers
       << ", \"shared_bytes\": " << costs.shared_bytes << "}\n";
  }
}

}  // namespace equigeo::simulator
