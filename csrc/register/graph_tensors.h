// The graph of a convolution, checked.
#pragma once

#include "args/channelwise_conv.h"
#include "register/tensors.h"

namespace equigeo {

struct GraphTensors {
  Tensor source, ptr, order, target, back_order, back_ptr;
  Graph sizes;

  GraphTensors(
      const Tensor& x,
      const Tensor& y,
      const Tensor& source_given,
      const Tensor& ptr_given,
      const Tensor& order_given,
      const Tensor& target_given,
      const Tensor& back_order_given,
      const Tensor& back_ptr_given)
      : sizes{} {
    EQUIGEO_CHECK(source_given.dim() == 1, "source must have one axis");
    EQUIGEO_CHECK(
        ptr_given.dim() == 1 && ptr_given.size(0) > 0, "ptr must have one axis and one entry");
    sizes.edges = source_given.size(0);
    sizes.targets = ptr_given.size(0) - 1;
    sizes.sources = x.size(0);
    EQUIGEO_CHECK(
        sizes.sources > 0 || sizes.edges == 0, "there must be no edges where there is no source");
    EQUIGEO_CHECK(  // kernels read its rows by numbers of edges
        y.size(0) == sizes.edges, "y must have a row for each of ", sizes.edges, " edges, got ",
        y.size(0));
    source = checked_index("source", source_given, x, sizes.edges);
    ptr = checked_index("ptr", ptr_given, x, sizes.targets + 1);
    order = checked_index("order", order_given, x, sizes.edges);
    target = checked_index("target", target_given, x, sizes.edges);
    back_order = checked_index("back_order", back_order_given, x, sizes.edges);
    back_ptr = checked_index("back_ptr", back_ptr_given, x, sizes.sources + 1);
  }

  Graph view() const {
    Graph graph = sizes;
    graph.source = read<int64_t>(source);
    graph.ptr = read<int64_t>(ptr);
    graph.order = read<int64_t>(order);
    graph.target = read<int64_t>(target);
    graph.back_order = read<int64_t>(back_order);
    graph.back_ptr = read<int64_t>(back_ptr);
    return graph;
  }
};

}  // namespace equigeo
