// Instruction sets that the CPU kernels are compiled for, and the choice between them.
#pragma once

#include <stdint.h>

#include "args/storage.h"

namespace equigeo {

// Computes rows [begin, end); returns 0, or why it could not.
constexpr int kStrayIndex = 1, kOutOfMemory = 2;

template <class Op>
using Rows = int (*)(const Op& op, int64_t begin, int64_t end);

template <template <class> class Op>
struct Kernels {
  Rows<Op<float>> f32;
  Rows<Op<double>> f64;
  Rows<Op<Bf16>> bf16 = nullptr;  // of ops that take it
};

enum class Isa { kBaseline, kAvx2, kAvx512, kNeon };

Isa current_isa();

}  // namespace equigeo

// One object per instruction set defines `name_baseline`, `name_avx2` and so on: the build gives
// EQUIGEO_TARGET_ISA, and EQUIGEO_HAS_BASELINE and so on for each that there are objects of.
// EQUIGEO_SELECT_KERNELS(name) is the one in use; the others are not looked at.
#define EQUIGEO_JOIN_(name, isa) name##_##isa
#define EQUIGEO_JOIN(name, isa) EQUIGEO_JOIN_(name, isa)
#define EQUIGEO_FOR_ISA(name) EQUIGEO_JOIN(name, EQUIGEO_TARGET_ISA)

// On Arm there is only NEON.
#ifdef EQUIGEO_HAS_NEON
#define EQUIGEO_DECLARE_KERNELS(Op, name) extern const Kernels<Op> name##_neon
#define EQUIGEO_SELECT_KERNELS(name) name##_neon
#else

#ifdef EQUIGEO_HAS_BASELINE
#define EQUIGEO_BASELINE_KERNELS(name) name##_baseline
#elif defined(EQUIGEO_HAS_AVX2)
#define EQUIGEO_BASELINE_KERNELS(name) name##_avx2
#else
#define EQUIGEO_BASELINE_KERNELS(name) name##_avx512
#endif
#ifdef EQUIGEO_HAS_AVX2
#define EQUIGEO_AVX2_KERNELS(name) name##_avx2
#else
#define EQUIGEO_AVX2_KERNELS(name) EQUIGEO_BASELINE_KERNELS(name)
#endif
#ifdef EQUIGEO_HAS_AVX512
#define EQUIGEO_AVX512_KERNELS(name) name##_avx512
#else
#define EQUIGEO_AVX512_KERNELS(name) EQUIGEO_BASELINE_KERNELS(name)
#endif

#define EQUIGEO_DECLARE_KERNELS(Op, name) \
  extern const Kernels<Op> name##_baseline, name##_avx2, name##_avx512
#define EQUIGEO_SELECT_KERNELS(name)                                                  \
  (::equigeo::current_isa() == ::equigeo::Isa::kAvx512 ? EQUIGEO_AVX512_KERNELS(name) \
   : ::equigeo::current_isa() == ::equigeo::Isa::kAvx2 ? EQUIGEO_AVX2_KERNELS(name)   \
                                                       : EQUIGEO_BASELINE_KERNELS(name))
#endif
