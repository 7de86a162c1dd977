// What kernels ask of memory, counted by kernel: sectors, turns of shared memory, barriers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "simulator/observer.h"
#include "simulator/warp_accesses.h"

namespace equigeo::simulator {

// Of all warps of all launches of a kernel.
struct KernelCosts {
  int64_t launches = 0, blocks = 0, threads = 0;
  int64_t loads = 0, load_sectors = 0, least_load_sectors = 0;     // of global memory
  int64_t stores = 0, store_sectors = 0, least_store_sectors = 0;  // of global memory
  int64_t shared = 0, bank_turns = 0, least_bank_turns = 0;        // accesses of shared memory
  int64_t warp_barriers = 0, block_barriers = 0;
  int64_t shared_bytes = 0;  // of a block, at most
};

class Costs : public Observer {
 public:
  void grid_begins(const void* kernel) override;
  void block_begins(unsigned number, unsigned threads) override;
  void warp_met(unsigned warp, uint32_t lanes, const SourceLocation& place) override;
  void block_met(const SourceLocation& place) override;
  void accessed(const void* address, unsigned bytes, Access access, const void* code) override;
  void grid_ends() override;

  const std::map<const void*, KernelCosts>& by_kernel() const { return all_; }

  // One line of JSON for each kernel, with its name.
  void write(const std::string& file) const;

 private:
  enum Kind { kLoad, kStore, kShared, kKinds };

  void flush();

  std::map<const void*, KernelCosts> all_;
  KernelCosts* kernel_ = nullptr;
  std::vector<WarpAccesses> warps_[kKinds];
};

}  // namespace equigeo::simulator
