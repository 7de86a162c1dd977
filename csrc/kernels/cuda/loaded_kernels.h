// Kernels of a path table that were compiled at run time, from the sources that
// run_time_kernels.cuh includes.
#pragma once

#include "kernels/cuda/known_models.h"

namespace equigeo {

// Of kernels with and without tangents, those without come first. As functions they have the types
// that kernels compiled ahead have.
struct LoadedKernels {
  static constexpr int kSum = 0, kDifferentiate = 2, kSumSeconds = 4, kSumMessages = 5, kCount = 6;

  KnownTable table;
  const void* kernel[kCount];

  template <class Function>
  Function at(int n, bool tangents = false) const {
    return reinterpret_cast<Function>(const_cast<void*>(kernel[n + tangents]));
  }
};

// Load machine code on the current device; null, or what went wrong.
const char* load_kernels(
    const void* cubin, const char* const* symbols, const void* (&kernel)[LoadedKernels::kCount]);

namespace {

// Those of a table of these sizes, unless kernels were compiled ahead, or null.
template <class Table>
const LoadedKernels* loaded_kernels_of(const Table& table) {
  return known_table(table) == nullptr ? table.loaded : nullptr;
}

// The table that one of these sizes may be, with kernels compiled ahead or at run time, or null.
template <class Table>
const KnownTable* table_with_kernels(const Table& table) {
  const LoadedKernels* loaded = loaded_kernels_of(table);
  return loaded == nullptr ? known_table(table) : &loaded->table;
}

}  // namespace
}  // namespace equigeo
