#include "args/so2_conv.h"

#include <tuple>
#include <vector>

#include "register/device.h"
#include "register/graph_tensors.h"
#include "register/so2_layout.h"

namespace equigeo {
namespace {

// Arguments that both ops have, checked.
struct Given {
  Tensor x, vectors, weight;
  Optional bias, scale, radial, envelope;
  GraphTensors graph;
  int64_t numbers = 0;
  bool empty_map = false;  // radial has no numbers to map
};

void check_given(const SO2Plan& plan, Given& g) {
  EQUIGEO_CHECK(g.x.dim() == 2, "x must be (sources, components)");
  const int64_t edges = g.graph.sizes.edges;
  g.numbers = plan.scale_numel;
  if (g.radial.has_value()) {
    EQUIGEO_CHECK(g.scale.has_value(), "radial needs scale, the numbers that it maps");
    EQUIGEO_CHECK(g.radial->dim() == 2, "radial must be (numbers, modulation)");
    g.numbers = g.radial->size(0);
    check_components("numbers", g.numbers);
  }
  const ScalarType dtype = g.x.scalar_type();
  const Tensor like = g.x;
  g.x = checked("x", g.x, like, dtype, {g.graph.sizes.sources, plan.dim_in});
  g.vectors = checked("vectors", g.vectors, like, dtype, {edges, 3});
  g.weight = checked("weight", g.weight, like, dtype, {plan.weight_numel});
  g.bias = checked_or_none("bias", g.bias, like, {plan.width_out[0]});
  g.scale = checked_or_none("scale", g.scale, like, {edges, g.numbers});
  g.radial = checked_or_none("radial", g.radial, like, {g.numbers, plan.scale_numel});
  g.envelope = checked_or_none("envelope", g.envelope, like, {edges});
  g.empty_map = g.radial.has_value() && g.numbers == 0;
  if (g.empty_map) {  // kernels know the map by its pointer, which an empty tensor lacks
    g.numbers = 1;
    g.scale = new_zeros(like, {edges, 1});
    g.radial = new_zeros(like, {1, plan.scale_numel});
  }
}

template <class T>
SO2Modulation<T> modulation_of(const Given& g) {
  return {read_or_null<T>(g.scale), read_or_null<T>(g.radial), g.numbers};
}

Tensor so2_conv_op(
    Tensor x,
    Tensor vectors,
    Tensor weight,
    Optional bias,
    Optional scale,
    Optional radial,
    Optional envelope,
    Tensor source,
    Tensor ptr,
    Tensor order,
    Tensor /*target*/,
    Tensor /*back_order*/,
    Tensor /*back_ptr*/,
    std::vector<int64_t> terms_in,
    std::vector<int64_t> terms_out,
    int64_t mmax,
    bool complex_weights,
    bool by_order) {
  const SO2Layout layout(terms_in, terms_out, mmax, complex_weights, by_order);
  const SO2Plan& plan = layout.plan();
  Given g{x, vectors, weight, bias, scale, radial, envelope, {x, source, ptr, order}};
  check_given(plan, g);
  Tensor out = new_result(g.x, {g.graph.sizes.targets, plan.dim_out});
  if (all_empty({&out})) {
    return out;
  }
  for_dtype(g.x, [&](auto zero) {
    using T = decltype(zero);
    const SO2Conv<T> op{g.graph.view(),      plan,
                        read<T>(g.x),        read<T>(g.vectors),
                        read<T>(g.weight),   read_or_null<T>(g.bias),
                        modulation_of<T>(g), read_or_null<T>(g.envelope),
                        write<T>(out)};
    run(op, g.x);
  });
  return out;
}

using Gradients = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

Gradients so2_conv_backward_op(
    Tensor grad,
    Tensor x,
    Tensor vectors,
    Tensor weight,
    Optional bias,
    Optional scale,
    Optional radial,
    Optional envelope,
    Tensor source,
    Tensor ptr,
    Tensor order,
    Tensor target,
    Tensor back_order,
    Tensor back_ptr,
    std::vector<int64_t> terms_in,
    std::vector<int64_t> terms_out,
    int64_t mmax,
    bool complex_weights,
    bool by_order,
    bool of_vectors,
    bool of_weights) {
  const SO2Layout layout(terms_in, terms_out, mmax, complex_weights, by_order);
  const SO2Plan& plan = layout.plan();
  Given g{x,     vectors, weight,   bias,
          scale, radial,  envelope, {x, source, ptr, order, target, back_order, back_ptr}};
  check_given(plan, g);
  const Graph& sizes = g.graph.sizes;
  grad = checked("grad", grad, g.x, g.x.scalar_type(), {sizes.targets, plan.dim_out});
  // Zeros, but where the kernel writes all of it.
  const auto like = [&](const Optional& tensor, bool written = false) {
    if (!tensor.has_value()) {
      return new_tensor(g.x, {0, 0});
    }
    const auto made = [&](Sizes sizes) {
      return written ? new_result(g.x, sizes) : new_zeros(g.x, sizes);
    };
    return tensor->dim() == 2 ? made({tensor->size(0), tensor->size(1)}) : made({tensor->size(0)});
  };
  Tensor grad_x = new_result(g.x, {sizes.sources, plan.dim_in});
  Tensor grad_vectors = like(g.vectors, of_vectors), grad_weight = like(g.weight);
  Tensor grad_bias = like(g.bias), grad_scale = like(g.scale, plan.scale_numel > 0);
  Tensor grad_radial = like(g.radial), grad_envelope = like(g.envelope, true);
  if (sizes.sources > 0) {
    for_dtype(g.x, [&](auto zero) {
      using T = decltype(zero);
      const auto write_or_null = [](const Optional& given, const Tensor& to) {
        return given.has_value() ? write<T>(to) : nullptr;
      };
      const SO2ConvBackward<T> op{
          g.graph.view(),
          plan,
          read<T>(grad),
          read<T>(g.x),
          read<T>(g.vectors),
          read<T>(g.weight),
          read_or_null<T>(g.bias),
          modulation_of<T>(g),
          read_or_null<T>(g.envelope),
          of_vectors,
          of_weights,
          write<T>(grad_x),
          write<T>(grad_vectors),
          write_or_null(g.scale, grad_scale),
          write_or_null(g.envelope, grad_envelope),
          write<T>(grad_weight),
          write_or_null(g.bias, grad_bias),
          write_or_null(g.radial, grad_radial)};
      run(op, g.x);
    });
  }
  if (g.empty_map) {
    grad_scale = new_tensor(g.x, {sizes.edges, 0});
    grad_radial = new_tensor(g.x, {0, plan.scale_numel});
  }
  return {grad_x, grad_vectors, grad_weight, grad_bias, grad_scale, grad_radial, grad_envelope};
}

}  // namespace
}  // namespace equigeo

STABLE_TORCH_LIBRARY_IMPL(equigeo, EQUIGEO_DEVICE, library) {
  library.impl("so2_conv", TORCH_BOX(&equigeo::so2_conv_op));
  library.impl("so2_conv_backward", TORCH_BOX(&equigeo::so2_conv_backward_op));
}
