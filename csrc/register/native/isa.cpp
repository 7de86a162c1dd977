// Prints the most capable instruction set of this machine; the build runs it.
#include <cstdio>

#if defined(__aarch64__)
#define EQUIGEO_HAS_NEON
#else
#define EQUIGEO_HAS_BASELINE
#endif
#if defined(__x86_64__)
#define EQUIGEO_HAS_AVX2
#define EQUIGEO_HAS_AVX512
#endif
#include "kernels/cpu/isa.cpp"

int main() { std::fputs(equigeo_isa(), stdout); }
