#include "simulator/races.h"

#include <algorithm>

#include "simulator/block.h"
#include "simulator/code_place.h"
#include "simulator/shared_memory.h"

namespace equigeo::simulator {

void Races::grid_begins(const void*) {
  ++grid_;
  found_.clear();
  message_.clear();
}

void Races::block_begins(unsigned number, unsigned threads) {
  block_ = number;
  clocks_.begin_block(threads);
}

void Races::warp_met(unsigned warp, uint32_t lanes, const SourceLocation&) {
  clocks_.warp_met(warp, lanes);
}

void Races::block_met(const SourceLocation&) { clocks_.block_met(); }

Races::Cell& Races::cell_at(uintptr_t word) {
  const uintptr_t number = word / kCells;
  Found& found = found_pages_[number % found_pages_.size()];
  if (found.cells == nullptr || found.number != number) {
    Page& page = pages_[number];
    page.resize(kCells);
    found = {number, page.data()};
  }
  return found.cells[word % kCells];
}

// Kernels on one stream follow one another; blocks of one kernel do not.
bool Races::is_over(const Past& past) const {
  return past.grid != grid_ || (past.block == block_ && clocks_.before(past.moment, thread_));
}

// Whether all reads since the last write are over for the thread that runs.
bool Races::reads_are_over(const Cell& cell) const {
  if (cell.read.grid != grid_) {
    return true;
  }
  if (cell.blocks || cell.read.block != block_) {
    return false;
  }
  if (clocks_.before({~0u, cell.read.moment.epoch, 0}, thread_)) {
    return true;
  }
  if (cell.warps || Clocks::warp_of(cell.read.moment.thread) != Clocks::warp_of(thread_)) {
    return false;
  }
  const unsigned first = Clocks::warp_of(thread_) * Device::kWarp;
  Moment moment = cell.read.moment;
  for (unsigned lane = 0; lane < Device::kWarp; ++lane) {
    moment.thread = first + lane;
    if ((cell.lanes >> lane & 1) != 0 && !clocks_.before(moment, thread_)) {
      return false;
    }
  }
  return true;
}

// Shared memory in which another block left something is new to this one.
void Races::forget_other_blocks(Cell& cell) const {
  const auto is_old = [this](const Past& p) { return p.grid != grid_ || p.block != block_; };
  if (is_old(cell.write)) {
    cell.write = {};
    cell.written = 0;
  }
  if (is_old(cell.read)) {
    cell.read = {};
    cell.blocks = false;
  }
}

// Whether the thread that runs was the last to read, since it last waited: nothing is new then.
bool Races::is_repeated(const Cell& cell, const Past& now) const {
  const Past& last = cell.read;
  return last.grid == grid_ && last.block == block_ && last.moment.thread == thread_ &&
         last.moment.epoch == now.moment.epoch && last.moment.time == now.moment.time &&
         (last.bytes & now.bytes) == now.bytes;
}

void Races::read(Cell& cell, const Past& now, bool shared) {
  if (is_repeated(cell, now)) {
    return;
  }
  if ((cell.write.bytes & now.bytes) != 0 && !is_over(cell.write)) {
    report("reads while another thread may write", cell.write.code, now.code);
  }
  if (shared && (now.bytes & ~cell.written) != 0) {
    report("reads shared memory that no thread of the block wrote", now.code, now.code);
  }
  const uint32_t lane = 1u << Clocks::lane_of(thread_);
  if (cell.read.grid != grid_) {
    cell.blocks = cell.warps = false;
    cell.lanes = lane;
  } else if (cell.read.block != block_) {
    cell.blocks = true;
  } else if (reads_are_over(cell)) {
    cell.warps = false;
    cell.lanes = lane;
  } else if (Clocks::warp_of(cell.read.moment.thread) != Clocks::warp_of(thread_)) {
    cell.warps = true;
  } else {
    cell.lanes |= lane;
  }
  const uint8_t others = cell.read.grid == grid_ ? cell.read.bytes : 0;
  cell.read = now;
  cell.read.bytes |= others;
}

void Races::write(Cell& cell, const Past& now) {
  const bool both_atomic = cell.write.atomic && now.atomic;
  if ((cell.write.bytes & now.bytes) != 0 && !both_atomic && !is_over(cell.write)) {
    report("writes while another thread may write", cell.write.code, now.code);
  }
  if ((cell.read.bytes & now.bytes) != 0 && !reads_are_over(cell)) {
    report("writes while another thread may read", cell.read.code, now.code);
  }
  cell.write = now;
  cell.written |= now.bytes;
  cell.read.bytes &= static_cast<uint8_t>(~now.bytes);
  if (cell.read.bytes == 0) {
    cell.read = {};
  }
}

void Races::accessed(const void* address, unsigned bytes, Access access, const void* code) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(address), end = begin + bytes;
  const bool shared = shared_memory().contains(address);
  thread_ = Block::current().thread().index;
  Past now{grid_, block_, clocks_.now(thread_), code, 0, access == Access::kAtomic};
  for (uintptr_t word = begin / 4; word * 4 < end; ++word) {
    const uintptr_t from = std::max(begin, word * 4) % 4;
    const uintptr_t count = std::min(end, word * 4 + 4) - word * 4 - from;
    Cell& cell = cell_at(word);
    if (shared) {
      forget_other_blocks(cell);
    }
    now.bytes = static_cast<uint8_t>(((1u << count) - 1) << from);
    access == Access::kRead ? read(cell, now, shared) : write(cell, now);
  }
}

void Races::report(const char* what, const void* earlier, const void* code) {
  constexpr size_t kMost = 8;
  if (found_.size() >= kMost || !found_.insert({earlier, code}).second) {
    return;
  }
  message_ += joined(
      "\n  ", place_of(code), " ", what, "; the other access: ", place_of(earlier), "; thread ",
      thread_, " of block ", block_);
}

void Races::grid_ends() {
  if (!message_.empty()) {
    const std::string message = std::exchange(message_, {});
    throw Error("accesses that no barrier puts in order:" + message);
  }
}

}  // namespace equigeo::simulator
