// Numbers with a derivative along one direction. What is written for numbers, or packs of them,
// computes derivatives when it is given these instead.
#pragma once

#include "math/host_device.h"

namespace equigeo {
namespace {

template <class Number>
struct Dual {
  Number value, slope;
};

template <class N>
EQUIGEO_HOST_DEVICE Dual<N> operator+(Dual<N> a, Dual<N> b) {
  return {a.value + b.value, a.slope + b.slope};
}

template <class N>
EQUIGEO_HOST_DEVICE Dual<N> operator-(Dual<N> a, Dual<N> b) {
  return {a.value - b.value, a.slope - b.slope};
}

template <class N>
EQUIGEO_HOST_DEVICE Dual<N> operator*(Dual<N> a, Dual<N> b) {
  return {a.value * b.value, a.slope * b.value + a.value * b.slope};
}

// A constant times a number.
template <class C, class N>
EQUIGEO_HOST_DEVICE Dual<N> operator*(C a, Dual<N> b) {
  return {a * b.value, a * b.slope};
}

template <class N>
EQUIGEO_HOST_DEVICE void operator+=(Dual<N>& a, Dual<N> b) {
  a.value += b.value;
  a.slope += b.slope;
}

// What results are made of: the derivative where there is one.
template <class N>
EQUIGEO_HOST_DEVICE N last_part(N number) {
  return number;
}
template <class N>
EQUIGEO_HOST_DEVICE N last_part(Dual<N> number) {
  return number.slope;
}

// sum += last_part(a * b), by one multiply-add for each term.
template <class N>
EQUIGEO_HOST_DEVICE void add_last_part(N& sum, N a, N b) {
  sum += a * b;
}
template <class N>
EQUIGEO_HOST_DEVICE void add_last_part(N& sum, Dual<N> a, Dual<N> b) {
  sum += a.value * b.slope;
  sum += a.slope * b.value;
}

// In memory, both parts lie side by side.
template <class N>
struct Lanes<Dual<N>> : Lanes<N> {};

template <class N, class T>
struct Memory<Dual<N>, T> {
  static EQUIGEO_HOST_DEVICE Dual<N> load(const T* address) {
    return {Memory<N, T>::load(address), Memory<N, T>::load(address + kWidth<N, T>)};
  }
  static EQUIGEO_HOST_DEVICE void store(T* address, Dual<N> number) {
    Memory<N, T>::store(address, number.value);
    Memory<N, T>::store(address + kWidth<N, T>, number.slope);
  }
};

// What a number is made of, and a constant as a number.
template <class N>
struct NumberOf {
  using Value = N;
  static EQUIGEO_HOST_DEVICE N constant(typename Lanes<N>::Scalar c) { return N{} + c; }
};

template <class N>
struct NumberOf<Dual<N>> {
  using Value = N;
  static EQUIGEO_HOST_DEVICE Dual<N> constant(typename Lanes<N>::Scalar c) {
    return {N{} + c, N{}};
  }
};

template <class N, class T>
EQUIGEO_HOST_DEVICE N number(T constant) {
  return NumberOf<N>::constant(constant);
}

}  // namespace
}  // namespace equigeo
