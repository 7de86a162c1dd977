// One thread of the block that runs.
#pragma once

#include <cstdint>

#include "simulator/async_copies.h"
#include "simulator/error.h"
#include "simulator/fiber.h"
#include "simulator/vector_types.h"

namespace equigeo::simulator {

// What a thread waits for.
enum class Barrier : uint8_t { kNone, kWarp, kShuffle, kBlock };

struct Thread {
  unsigned index = 0;  // in the block
  uint3 place_in_block{};
  bool done = false;
  Fiber* fiber = nullptr;  // on which it runs, once it has begun

  Barrier barrier = Barrier::kNone;
  uint32_t mask = 0;     // lanes that meet at a barrier of the warp
  SourceLocation place;  // of the barrier

  // A shuffle: what this lane gives, what it is given, and from which lane.
  static constexpr unsigned kMostBytes = 8;
  unsigned char given[kMostBytes], received[kMostBytes];
  unsigned source = 0;

  AsyncCopies copies;

  bool ready() const { return !done && barrier == Barrier::kNone; }
};

}  // namespace equigeo::simulator
