// CUDA's small vectors, by its names.
#pragma once

#include <cstdint>

namespace equigeo::simulator {

// Copy a vector as a card does, in one piece: raises for an address that is no multiple of its
// size. Not inline, since a compiler may take for granted what is asked here.
void copy_vector(void* to, const void* from, unsigned size);

}  // namespace equigeo::simulator

struct uint3 {
  unsigned x, y, z;
};

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}

  constexpr uint64_t count() const { return uint64_t{x} * y * z; }
};

struct alignas(16) float4 {
  float x, y, z, w;
  float4() = default;
  float4(const float4& from) { *this = from; }
  float4& operator=(const float4& from) {
    equigeo::simulator::copy_vector(this, &from, sizeof(float4));
    return *this;
  }
};

struct alignas(16) double2 {
  double x, y;
  double2() = default;
  double2(const double2& from) { *this = from; }
  double2& operator=(const double2& from) {
    equigeo::simulator::copy_vector(this, &from, sizeof(double2));
    return *this;
  }
};
