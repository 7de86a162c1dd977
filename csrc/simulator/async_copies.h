// Copies into shared memory that a thread asks for and waits for later.
//
// They are made when they are waited for, no sooner; until then the target is poisoned. A card may
// make them at any time in between.
#pragma once

#include <deque>
#include <vector>

#include "simulator/error.h"

namespace equigeo::simulator {

class AsyncCopies {
 public:
  void ask(void* to, const void* from, size_t bytes, const SourceLocation& place);
  void commit();

  // Make all batches but the `left` last ones.
  void wait(size_t left);

  void clear();

 private:
  struct Copy {
    void* to;
    const void* from;
    size_t bytes;
  };
  using Batch = std::vector<Copy>;

  static void make(const Batch& batch);

  Batch open_;
  std::deque<Batch> committed_;
};

}  // namespace equigeo::simulator
