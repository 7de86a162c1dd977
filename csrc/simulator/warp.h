// Thirty-two threads that wait for one another, all or some of them.
#pragma once

#include <cstdint>

#include "simulator/thread.h"

namespace equigeo::simulator {

// The threads [first, first + lanes) of a block.
class Warp {
 public:
  Warp(unsigned number, Thread* first, unsigned lanes)
      : number_(number), first_(first), lanes_(lanes) {}

  // Let go of the lanes whose barrier everybody has reached; whether there were any. Lanes that
  // have finished are not waited for.
  bool release();

  bool ready() const;
  bool done() const;
  unsigned lanes() const { return lanes_; }
  Thread& operator[](unsigned lane) const { return first_[lane]; }

 private:
  bool holds(uint32_t lanes, unsigned lane) const { return lanes >> lane & 1; }
  uint32_t live() const;
  bool has_gathered(uint32_t group, const Thread& waiting) const;
  void exchange(uint32_t group) const;

  unsigned number_;
  Thread* first_;
  unsigned lanes_;
};

}  // namespace equigeo::simulator
