// The graph of an op, checked.
#pragma once

#include "args/graph.h"
#include "register/tensors.h"

namespace equigeo {

struct GraphTensors {
  Tensor source, ptr;
  Optional order, target, back_order, back_ptr;  // those that the op reads
  Graph sizes{};

  // `x` has a row for each source.
  GraphTensors(
      const Tensor& x,
      const Tensor& source_given,
      const Tensor& ptr_given,
      const Optional& order_given = std::nullopt,
      const Optional& target_given = std::nullopt,
      const Optional& back_order_given = std::nullopt,
      const Optional& back_ptr_given = std::nullopt) {
    EQUIGEO_CHECK(x.dim() > 0, "x must have a row for each source");
    EQUIGEO_CHECK(source_given.dim() == 1, "source must have one axis");
    EQUIGEO_CHECK(
        ptr_given.dim() == 1 && ptr_given.size(0) > 0, "ptr must have one axis and one entry");
    sizes.edges = source_given.size(0);
    sizes.targets = ptr_given.size(0) - 1;
    sizes.sources = x.size(0);
    EQUIGEO_CHECK(
        sizes.edges == 0 || (sizes.sources > 0 && sizes.targets > 0),
        "there must be no edges where there is no source or no target");
    const auto index_or_none = [&](const char* name, const Optional& given, int64_t length) {
      return given.has_value() ? Optional(checked_index(name, *given, x, length)) : std::nullopt;
    };
    source = checked_index("source", source_given, x, sizes.edges);
    ptr = checked_index("ptr", ptr_given, x, sizes.targets + 1);
    order = index_or_none("order", order_given, sizes.edges);
    target = index_or_none("target", target_given, sizes.edges);
    back_order = index_or_none("back_order", back_order_given, sizes.edges);
    back_ptr = index_or_none("back_ptr", back_ptr_given, sizes.sources + 1);
  }

  Graph view() const {
    Graph graph = sizes;
    graph.source = read<int64_t>(source);
    graph.ptr = read<int64_t>(ptr);
    graph.order = read_or_null<int64_t>(order);
    graph.target = read_or_null<int64_t>(target);
    graph.back_order = read_or_null<int64_t>(back_order);
    graph.back_ptr = read_or_null<int64_t>(back_ptr);
    return graph;
  }
};

}  // namespace equigeo
