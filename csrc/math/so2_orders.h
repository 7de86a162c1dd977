// Numbers of edges in their frames, by order.
#pragma once

#include "args/so2_conv.h"
#include "math/host_device.h"

namespace equigeo {
namespace {

// A row for each edge of a tile and each part of a complex number, order by order, and for some a
// third one, the sum of both parts. Order 0 has one.
template <class T>
struct Orders {
  T* at[kMostOrders];
  int64_t stride[kMostOrders], tile;

  EQUIGEO_HOST_DEVICE T* row(int64_t m, int64_t part, int64_t edge) const {
    return at[m] + (part * tile + edge) * stride[m];
  }
};

// Where component m of a term lies among the orders of an edge, and with which sign.
template <class T>
struct Component {
  T* at;
  T sign;
};

template <class T>
EQUIGEO_HOST_DEVICE Component<T> component_of(
    const Orders<T>& orders, const SO2Term& term, int64_t m, int64_t edge) {
  const int64_t order = m < 0 ? -m : m;
  const bool other = term.swapped && m != 0;
  const int64_t part = (m < 0) != other;
  const T sign = other && m < 0 ? T(-1) : T(1);
  return {orders.row(order, part, edge) + term.column[order], sign};
}

// Where the factors of a term are, by order, in the modulation of an edge.
EQUIGEO_HOST_DEVICE int64_t scale_of(const SO2Plan& plan, const SO2Term& term, int64_t m) {
  return plan.by_order ? plan.scale[m] + term.column[m] : term.column[0];
}

}  // namespace
}  // namespace equigeo
