// What kernels call: CUDA's functions of the device, in C++.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "simulator/error.h"
#include "simulator/thread.h"

namespace equigeo::simulator {

void sync_warp(uint32_t mask, const SourceLocation& place);
void sync_block(const SourceLocation& place);

// The value that another lane gives at the same shuffle: CUDA has these for numbers of 4 and 8
// bytes. They order nothing else that lanes do.
void shuffle(
    void* value, unsigned bytes, unsigned source, uint32_t mask, const SourceLocation& place);
unsigned lane();

void ask_for_copy(void* to, const void* from, size_t bytes, const SourceLocation& place);
void commit_copies();
void wait_for_copies(size_t left);

[[noreturn]] void trap(const SourceLocation& place);

// Reports an atomic operation to the observer, which is no race with another one.
void observe_atomic(const void* address, unsigned bytes);

}  // namespace equigeo::simulator

#define EQUIGEO_FROM_CALLER const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncwarp(unsigned mask = 0xffffffffu, EQUIGEO_FROM_CALLER) {
  equigeo::simulator::sync_warp(mask, {file, line});
}

inline void __syncthreads(EQUIGEO_FROM_CALLER) { equigeo::simulator::sync_block({file, line}); }

template <class T>
T __shfl_sync(unsigned mask, T value, unsigned source, EQUIGEO_FROM_CALLER) {
  static_assert(std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
  equigeo::simulator::shuffle(&value, sizeof(T), source % 32, mask, {file, line});
  return value;
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, unsigned lanes, EQUIGEO_FROM_CALLER) {
  return __shfl_sync(mask, value, equigeo::simulator::lane() ^ lanes, file, line);
}

[[noreturn]] inline void __trap(EQUIGEO_FROM_CALLER) { equigeo::simulator::trap({file, line}); }

// The read-only cache and the hint to stream change no value.
template <class T>
T __ldg(const T* from) {
  return *from;
}

template <class T>
void __stcs(T* to, T value) {
  *to = value;
}

// One thread runs at a time; the observer gets one access, not a read and a write.
template <class T>
__attribute__((no_sanitize("thread"))) T atomicAdd(T* address, T value) {
  equigeo::simulator::observe_atomic(address, sizeof(T));
  const T before = *address;
  *address = before + value;
  return before;
}

inline void __pipeline_memcpy_async(void* to, const void* from, size_t bytes, EQUIGEO_FROM_CALLER) {
  equigeo::simulator::ask_for_copy(to, from, bytes, {file, line});
}

inline void __pipeline_commit() { equigeo::simulator::commit_copies(); }

inline void __pipeline_wait_prior(size_t left) { equigeo::simulator::wait_for_copies(left); }

#undef EQUIGEO_FROM_CALLER
