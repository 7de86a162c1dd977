// Leaving one stack for another, in user space.
#pragma once

#include <cstddef>

#if !defined(__x86_64__) || defined(EQUIGEO_SIMULATOR_UCONTEXT)
#define EQUIGEO_SIMULATOR_USES_UCONTEXT
#include <ucontext.h>
#endif

namespace equigeo::simulator {

// Where something was left. On x86-64 everything is on its stack; elsewhere it is what POSIX keeps,
// whose switch costs two system calls.
struct Context {
#ifdef EQUIGEO_SIMULATOR_USES_UCONTEXT
  ucontext_t saved;
#else
  void* stack_pointer = nullptr;
#endif
};

// Make a context that calls `entry`, which must not return, on an empty stack.
void prepare(Context& context, char* stack, size_t size, void (*entry)());

// Leave for `to`; returns when something switches back to `from`.
void switch_context(Context& from, Context& to);

}  // namespace equigeo::simulator
