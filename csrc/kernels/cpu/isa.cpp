#include "kernels/cpu/isa.h"

#include <cstring>

namespace equigeo {
namespace {

struct Entry {
  Isa isa;
  const char* name;
  bool available;
};

// From the least to the most capable, as far as compiled.
const Entry* entries() {
#if defined(EQUIGEO_HAS_AVX2) || defined(EQUIGEO_HAS_AVX512)
  __builtin_cpu_init();
#endif
#ifdef EQUIGEO_HAS_AVX2
  static const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  static const bool avx2 = false;
#endif
#ifdef EQUIGEO_HAS_AVX512
  static const bool avx512 = __builtin_cpu_supports("avx512f") &&
                             __builtin_cpu_supports("avx512bw") &&
                             __builtin_cpu_supports("avx512dq") &&
                             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
#else
  static const bool avx512 = false;
#endif
#ifdef EQUIGEO_HAS_BASELINE
  static const bool baseline = true;
#else
  static const bool baseline = false;
#endif
#ifdef EQUIGEO_HAS_NEON
  static const bool neon = true;  // every processor of aarch64 has it
#else
  static const bool neon = false;
#endif
  static const Entry table[] = {
      {Isa::kBaseline, "baseline", baseline},
      {Isa::kAvx2, "avx2", avx2},
      {Isa::kAvx512, "avx512", avx512},
      {Isa::kNeon, "neon", neon},
  };
  return table;
}

constexpr int kEntries = 4;

const Entry* best() {
  const Entry* last = nullptr;
  for (int i = 0; i < kEntries; ++i) {
    last = entries()[i].available ? entries() + i : last;
  }
  if (last == nullptr) {
    __builtin_trap();  // built for another processor, which Python refuses before it loads this
  }
  return last;
}

const Entry*& current() {
  static const Entry* entry = best();
  return entry;
}

// Put together once, however many threads ask.
struct Names {
  char text[64] = "";

  Names() {
    for (int i = 0; i < kEntries; ++i) {
      if (entries()[i].available) {
        std::strcat(text, text[0] == '\0' ? "" : ",");
        std::strcat(text, entries()[i].name);
      }
    }
  }
};

}  // namespace

Isa current_isa() { return current()->isa; }

}  // namespace equigeo

extern "C" {

#ifdef EQUIGEO_ISAS
// Read from the file before it is loaded: equigeo/ops/runtime/library.py.
extern __attribute__((visibility("default"))) const char equigeo_isas[];
const char equigeo_isas[] = "equigeo-isas:" EQUIGEO_ISAS;
#endif

__attribute__((visibility("default"))) const char* equigeo_isa() {
  return equigeo::current()->name;
}

// Names that this machine can run, separated by commas.
__attribute__((visibility("default"))) const char* equigeo_available_isas() {
  static const equigeo::Names names;
  return names.text;
}

// Returns 1, or 0 and changes nothing if there is no such instruction set here.
__attribute__((visibility("default"))) int equigeo_set_isa(const char* name) {
  for (int i = 0; i < equigeo::kEntries; ++i) {
    const equigeo::Entry* entry = equigeo::entries() + i;
    if (entry->available && std::strcmp(entry->name, name) == 0) {
      equigeo::current() = entry;
      return 1;
    }
  }
  return 0;
}
}
