#include "simulator/launch.h"

#include <map>
#include <mutex>
#include <vector>

#include "simulator/observer.h"
#include "simulator/settings.h"
#include "simulator/shared_memory.h"

namespace equigeo::simulator {
namespace {

struct Attributes {
  std::mutex mutex;
  std::map<const void*, int64_t> dynamic_shared;
};

Attributes& attributes() {
  static Attributes all;
  return all;
}

// Bytes of shared memory that a kernel may have: more than 48 KiB only where it was asked for.
int64_t most_shared(const void* kernel, int64_t dynamic) {
  Attributes& all = attributes();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto found = all.dynamic_shared.find(kernel);
  if (found == all.dynamic_shared.end()) {
    return Device::kSharedUnasked;
  }
  return dynamic <= found->second ? settings().device.shared_per_block : found->second;
}

void check_extent(const char* what, dim3 size, dim3 most, const char* device) {
  const bool fits = size.x <= most.x && size.y <= most.y && size.z <= most.z;
  if (!fits || size.count() == 0) {
    refuse(
        what, " is ", size.x, " x ", size.y, " x ", size.z, ", but must be from 1 to ", most.x,
        " x ", most.y, " x ", most.z, " on ", device);
  }
}

void check_shape(const Shape& shape, int64_t most_shared) {
  const char* device = settings().device.name;
  check_extent("a grid", shape.grid, {Device::kGridX, Device::kGridY, Device::kGridZ}, device);
  check_extent("a block", shape.block, {Device::kBlockX, Device::kBlockY, Device::kBlockZ}, device);
  if (shape.block.count() > Device::kThreads) {
    refuse(
        "a block has ", shape.block.count(), " threads, but at most ", Device::kThreads, " on ",
        device);
  }
  if (shape.shared_bytes < 0 || shape.shared_bytes > most_shared) {
    refuse(
        "a block is to have ", shape.shared_bytes, " bytes of shared memory, but this kernel may ",
        "have ", most_shared, " on ", device);
  }
  if (static_cast<int64_t>(shape.argument_bytes) > Device::kArguments) {
    refuse(
        "the arguments of a kernel take ", shape.argument_bytes, " bytes, but at most ",
        Device::kArguments);
  }
}

uint3 block_at(unsigned n, dim3 grid) {
  return {n % grid.x, n / grid.x % grid.y, n / grid.x / grid.y};
}

// Blocks have no order on a card: those of another one first, or any.
void run_blocks(const Shape& shape, const Body& body, Order& order) {
  Block block(shape.block);
  const unsigned count = static_cast<unsigned>(shape.grid.count());
  std::vector<unsigned> numbers;
  order.arrange(count, numbers);
  for (const unsigned n : numbers) {
    coordinates.block = block_at(n, shape.grid);
    shared_memory().begin_block();
    observer().block_begins(n, static_cast<unsigned>(shape.block.count()));
    block.run(body, order);
  }
}

}  // namespace

void run_grid(const Shape& shape, const void* kernel, const Body& body) {
  static std::mutex card;
  const std::lock_guard<std::mutex> lock(card);
  const int64_t most = most_shared(kernel, shape.shared_bytes);
  check_shape(shape, most);
  coordinates.threads = shape.block;
  coordinates.blocks = shape.grid;
  shared_memory().begin_grid(shape.shared_bytes, most, settings().device.name);
  observer().grid_begins(kernel);
  Order order = settings().order;
  run_blocks(shape, body, order);
  observer().grid_ends();
}

bool allow_dynamic_shared(const void* kernel, int64_t bytes) {
  if (bytes > settings().device.shared_per_block) {
    return false;
  }
  Attributes& all = attributes();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.dynamic_shared[kernel] = bytes;
  return true;
}

}  // namespace equigeo::simulator
