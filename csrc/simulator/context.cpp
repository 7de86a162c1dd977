#include "simulator/context.h"

#include <cstdint>

#ifndef EQUIGEO_SIMULATOR_USES_UCONTEXT
// Registers that a function must leave as they were, on the stack that is left; System V ABI.
// Kernels change neither the rounding nor the exceptions of floating point.
asm(R"(
.text
.p2align 4
.local equigeo_switch_stack
.type equigeo_switch_stack, @function
equigeo_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size equigeo_switch_stack, . - equigeo_switch_stack
)");
extern "C" void equigeo_switch_stack(void** left, void* stack_pointer);
#endif

namespace equigeo::simulator {

#ifdef EQUIGEO_SIMULATOR_USES_UCONTEXT

void prepare(Context& context, char* stack, size_t size, void (*entry)()) {
  getcontext(&context.saved);
  context.saved.uc_stack.ss_sp = stack;
  context.saved.uc_stack.ss_size = size;
  context.saved.uc_link = nullptr;
  makecontext(&context.saved, entry, 0);
}

void switch_context(Context& from, Context& to) { swapcontext(&from.saved, &to.saved); }

#else

void prepare(Context& context, char* stack, size_t size, void (*entry)()) {
  const uintptr_t end = (reinterpret_cast<uintptr_t>(stack) + size) & ~uintptr_t{15};
  void** top = reinterpret_cast<void**>(end);
  // The stack as a call of `entry` leaves it: 8 bytes off a multiple of 16, behind a return address
  // that ends every backtrace.
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(entry);
  for (int n = 0; n < 6; ++n) {
    *--top = nullptr;
  }
  context.stack_pointer = top;
}

void switch_context(Context& from, Context& to) {
  equigeo_switch_stack(&from.stack_pointer, to.stack_pointer);
}

#endif

}  // namespace equigeo::simulator
