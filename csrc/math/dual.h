// Numbers with a derivative: a value and how it changes along one direction.
#pragma once

#include "math/host_device.h"

namespace equigeo {
namespace {

template <class Pack>
struct Dual {
  Pack value, slope;
};

template <class Pack>
struct Lanes<Dual<Pack>> : Lanes<Pack> {};

// Both parts side by side.
template <class Pack, class T>
struct Memory<Dual<Pack>, T> {
  static EQUIGEO_HOST_DEVICE Dual<Pack> load(const T* address) {
    return {Memory<Pack, T>::load(address), Memory<Pack, T>::load(address + kWidth<Pack, T>)};
  }
  static EQUIGEO_HOST_DEVICE void store(T* address, Dual<Pack> number) {
    Memory<Pack, T>::store(address, number.value);
    Memory<Pack, T>::store(address + kWidth<Pack, T>, number.slope);
  }
};

template <class Pack>
EQUIGEO_HOST_DEVICE Dual<Pack> operator*(Dual<Pack> a, Dual<Pack> b) {
  return {a.value * b.value, a.value * b.slope + a.slope * b.value};
}

template <class Pack>
EQUIGEO_HOST_DEVICE Dual<Pack> operator*(typename Lanes<Pack>::Scalar a, Dual<Pack> b) {
  return {a * b.value, a * b.slope};
}

template <class Pack>
EQUIGEO_HOST_DEVICE void operator+=(Dual<Pack>& a, Dual<Pack> b) {
  a.value += b.value;
  a.slope += b.slope;
}

// Add a constant to all lanes.
template <class Pack, class T>
EQUIGEO_HOST_DEVICE void add_value(Pack& number, T constant) {
  number += constant;
}
template <class Pack, class T>
EQUIGEO_HOST_DEVICE void add_value(Dual<Pack>& number, T constant) {
  number.value += constant;
}

// What results are made of: the derivative where there is one.
template <class Pack>
EQUIGEO_HOST_DEVICE Pack last_part(Pack number) {
  return number;
}
template <class Pack>
EQUIGEO_HOST_DEVICE Pack last_part(Dual<Pack> number) {
  return number.slope;
}

}  // namespace
}  // namespace equigeo
