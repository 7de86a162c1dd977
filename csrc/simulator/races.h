// Two accesses to the same memory, one of them a write, that no barrier puts in order.
//
// The thread sanitizer's instrumentation finds every access, but its own library knows neither
// warps nor blocks. This one takes its place: it finds what may go wrong in any order from a run in
// one of them, between the threads of a block and between blocks, which nothing orders.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "simulator/clocks.h"
#include "simulator/observer.h"

namespace equigeo::simulator {

class Races : public Observer {
 public:
  void grid_begins(const void* kernel) override;
  void block_begins(unsigned number, unsigned threads) override;
  void warp_met(unsigned warp, uint32_t lanes, const SourceLocation& place) override;
  void block_met(const SourceLocation& place) override;
  void accessed(const void* address, unsigned bytes, Access access, const void* code) override;

  // Throws an Error that lists what was found, each pair of places once.
  void grid_ends() override;

 private:
  // An access that may meet another one.
  struct Past {
    uint32_t grid = 0;  // none before the first one
    unsigned block = 0;
    Moment moment{};
    const void* code = nullptr;
    uint8_t bytes = 0;  // which of the four
    bool atomic = false;
  };

  // What is known of four bytes: the last write, and the reads since then, of which those that are
  // over for a later reader are forgotten.
  struct Cell {
    Past write, read;
    uint8_t written = 0;  // bytes of shared memory that this block has written
    uint32_t lanes = 0;   // that read, of the warp of the last read
    bool warps = false;   // whether several warps read
    bool blocks = false;  // whether several blocks read
  };

  static constexpr unsigned kCells = 1024;  // of a page of 4 KiB
  using Page = std::vector<Cell>;

  Cell& cell_at(uintptr_t word);
  void forget_other_blocks(Cell& cell) const;
  bool is_repeated(const Cell& cell, const Past& now) const;
  bool is_over(const Past& past) const;
  bool reads_are_over(const Cell& cell) const;
  void read(Cell& cell, const Past& now, bool shared);
  void write(Cell& cell, const Past& now);
  void report(const char* what, const void* earlier, const void* code);

  Clocks clocks_;
  uint32_t grid_ = 0;
  unsigned block_ = 0, thread_ = 0;
  std::unordered_map<uintptr_t, Page> pages_;
  // Pages that were asked for lately, by the last bits of their numbers.
  struct Found {
    uintptr_t number = 0;
    Cell* cells = nullptr;
  };
  std::array<Found, 256> found_pages_;
  std::set<std::pair<const void*, const void*>> found_;
  std::string message_;
};

}  // namespace equigeo::simulator
