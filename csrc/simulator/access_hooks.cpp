// What the compiler calls before every access when it instruments for the thread sanitizer, whose
// library this one replaces.
#include <cstdlib>
#include <string>

#include "simulator/block.h"
#include "simulator/code_place.h"
#include "simulator/costs.h"
#include "simulator/observer.h"
#include "simulator/races.h"

namespace equigeo::simulator {
namespace {

// Every access is looked at from the first kernel on: for races, or, where EQUIGEO_SIMULATE_COSTS
// names a file, for what it costs, which is written there when the program ends.
class Watch {
 public:
  Watch() {
    const char* file = std::getenv("EQUIGEO_SIMULATE_COSTS");
    file_ = file == nullptr ? "" : file;
    observe_with(file_.empty() ? static_cast<Observer*>(&races_) : &costs_);
  }

  ~Watch() {
    if (!file_.empty()) {
      costs_.write(file_);
    }
  }

 private:
  std::string file_;
  Races races_;
  Costs costs_;
};

const Watch watch;

inline void tell(
    const void* address, unsigned bytes, Access access, bool aligned, const void* code) {
  if (aligned && reinterpret_cast<uintptr_t>(address) % bytes != 0 && Block::is_running()) {
    Block::current().fail(joined(
        place_of(code), ": ", bytes,
        " bytes are read or written at an address that is no multiple"));
  }
  tell_access(address, bytes, access, code);
}

}  // namespace
}  // namespace equigeo::simulator

// The compiler names the accesses that it takes to be aligned.
#define EQUIGEO_HOOK(name, bytes, access, aligned)                     \
  void name(void* address) {                                           \
    ::equigeo::simulator::tell(                                        \
        address, bytes, ::equigeo::simulator::Access::access, aligned, \
        __builtin_return_address(0));                                  \
  }
#define EQUIGEO_HOOKS(bytes)                                      \
  EQUIGEO_HOOK(__tsan_read##bytes, bytes, kRead, true)            \
  EQUIGEO_HOOK(__tsan_write##bytes, bytes, kWrite, true)          \
  EQUIGEO_HOOK(__tsan_unaligned_read##bytes, bytes, kRead, false) \
  EQUIGEO_HOOK(__tsan_unaligned_write##bytes, bytes, kWrite, false)

extern "C" {

EQUIGEO_HOOKS(1)
EQUIGEO_HOOKS(2)
EQUIGEO_HOOKS(4)
EQUIGEO_HOOKS(8)
EQUIGEO_HOOKS(16)

void __tsan_read_range(void* address, unsigned long bytes) {
  ::equigeo::simulator::tell_access(
      address, static_cast<unsigned>(bytes), ::equigeo::simulator::Access::kRead,
      __builtin_return_address(0));
}

void __tsan_write_range(void* address, unsigned long bytes) {
  ::equigeo::simulator::tell_access(
      address, static_cast<unsigned>(bytes), ::equigeo::simulator::Access::kWrite,
      __builtin_return_address(0));
}

// Of calls and of objects' types there is nothing to know.
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit(void*) {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

// Whether a static variable is there yet.
unsigned char __tsan_atomic8_load(const volatile unsigned char* guard, int) {
  return __atomic_load_n(guard, __ATOMIC_ACQUIRE);
}

}  // extern "C"
