// Writing past the caches what will not be read from them.
#pragma once

#include "kernels/cpu/pack.h"

namespace equigeo {
namespace {

#if defined(__has_builtin)
#if __has_builtin(__builtin_nontemporal_store)
#define EQUIGEO_HAS_NONTEMPORAL
#endif
#endif

// A whole register to an address with its alignment.
template <class T>
EQUIGEO_HOST_DEVICE void stream_pack(WidePack<T> pack, T* to) {
#if defined(EQUIGEO_HAS_NONTEMPORAL)
  __builtin_nontemporal_store(pack, reinterpret_cast<WidePack<T>*>(to));
#elif defined(__SSE2__)
  typedef long long Bits __attribute__((vector_size(EQUIGEO_PACK_BYTES), may_alias));
  Bits bits;
  __builtin_memcpy(&bits, &pack, sizeof(bits));
#if EQUIGEO_PACK_BYTES == 64
  __builtin_ia32_movntdq512(reinterpret_cast<Bits*>(to), bits);
#elif EQUIGEO_PACK_BYTES == 32
  __builtin_ia32_movntdq256(reinterpret_cast<Bits*>(to), bits);
#else
  __builtin_ia32_movntdq(reinterpret_cast<Bits*>(to), bits);
#endif
#else
  Memory<WidePack<T>, T>::store(to, pack);
#endif
}

// `count` numbers. Other threads see them after finish_streams.
template <class T>
inline void stream_row(const T* from, int64_t count, T* to) {
  constexpr int64_t kW = kWidth<WidePack<T>, T>;
  int64_t n = 0;
  for (; n < count && reinterpret_cast<uintptr_t>(to + n) % EQUIGEO_PACK_BYTES != 0; ++n) {
    to[n] = from[n];
  }
  for (; n + kW <= count; n += kW) {
    stream_pack(Memory<WidePack<T>, T>::load(from + n), to + n);
  }
  for (; n < count; ++n) {
    to[n] = from[n];
  }
}

inline void finish_streams() {
#if defined(__SSE2__)
  __builtin_ia32_sfence();
#endif
}

}  // namespace
}  // namespace equigeo
