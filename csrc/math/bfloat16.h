// Conversions of bfloat16.
#pragma once

#include "args/storage.h"
#include "math/host_device.h"

namespace equigeo {
namespace {

EQUIGEO_HOST_DEVICE float widen(Bf16 value) {
  const uint32_t bits = static_cast<uint32_t>(value.bits) << 16;
  float wide;
  __builtin_memcpy(&wide, &bits, sizeof(wide));
  return wide;
}

// To the nearest, ties to even; a NaN stays one.
EQUIGEO_HOST_DEVICE Bf16 narrow(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const uint32_t quiet = (bits >> 16) | 0x40;
  return {static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded)};
}

}  // namespace
}  // namespace equigeo
