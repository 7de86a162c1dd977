"""Layers of fairchem that act in the frames of edges."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from equigeo.interop.descriptions.module_state import building, copy_state
from equigeo.interop.fairchem.edge_modules import EdgeDegreeEmbedding, RadialConvolution
from equigeo.interop.fairchem.node_layers import natural
from equigeo.reps import Irreps
from equigeo.reps.irreps import Layout
from equigeo.tensor_products import SO2Conv


def convolution(module: Any, layout: Layout, sources: str) -> SO2Conv | RadialConvolution:
    """Convert ``SO2_Convolution``, complex numbers per order in edge frames."""
    orders = []
    for m, conv in enumerate(module.so2_m_conv, start=1):
        matrix = _matrix(module, f"so2_m_conv.{m - 1}.fc", conv.fc)
        orders += [*matrix.chunk(2)]  # the real and the imaginary parts
    return _convolution(module, layout, sources, "SO3", orders)


def convolution_with_radial(module: Any, layout: Layout, sources: str) -> SO2Conv:
    """Convert ``SO2_Conv1_WithRadialBlock``, which receives the modulation in ``forward``."""
    found = convolution(module, layout, sources)
    return found.conv if isinstance(found, RadialConvolution) else found


def real_convolution(module: Any, layout: Layout, sources: str) -> SO2Conv | RadialConvolution:
    """Convert ``SO2_Linear``: O(3) only allows real parts between natural irreps."""
    orders = [_matrix(module, f"so2_m_fc.{m}", fc) for m, fc in enumerate(module.so2_m_fc)]
    return _convolution(module, layout, sources, "O3", orders)


def edge_degree_embedding(module: Any, layout: Layout) -> EdgeDegreeEmbedding:
    """Convert ``EdgeDegreeEmbedding`` to harmonics with weights."""
    irreps = natural(module.sphere_channels, module.lmax, layout)
    like = next(module.rad_func.parameters())
    with building():
        converted = EdgeDegreeEmbedding(nn.Identity(), irreps, float(module.rescale_factor))
    converted.radial = copy.deepcopy(module.rad_func.net)
    copy_state(converted, like, module.training, {})
    return converted


def _convolution(
    module: Any, layout: Layout, sources: str, group: str, orders: list[Tensor]
) -> SO2Conv | RadialConvolution:
    first = module.fc_m0
    matrix = _matrix(module, "fc_m0", first)
    channels = module.sphere_channels
    if sources == "both":
        if channels % 2:
            raise ValueError(
                f'sources="both" needs an even number of channels in the message, got {channels}'
            )
        channels //= 2
    irreps_out = natural(module.m_output_channels, module.lmax, layout)
    extra = getattr(module, "extra_m0_output_channels", None)
    if extra is not None:
        irreps_out = Irreps([(extra, (0, 1)), *irreps_out], layout)
    radial = getattr(module, "rad_func", None)
    with building():
        conv = SO2Conv(
            natural(channels, module.lmax, layout),
            irreps_out,
            mmax=module.mmax,
            group=group,
            modulation=None if radial is None else "order",
            bias=first.bias is not None,
            sources=sources,
            layout=layout,
        )
        conv.set_matrices(torch.cat([matrix.flatten(), *(order.flatten() for order in orders)]))
    _finish(conv, module, first)
    if radial is None:
        return conv
    return RadialConvolution(conv, copy.deepcopy(radial.net)).train(module.training)


def _finish(conv: SO2Conv, module: Any, first: nn.Linear) -> None:
    """Set biases, of order 0 only, and dtype, device and flags."""
    copy_state(conv, first.weight, module.training, {})
    conv.mixing.requires_grad_(any(p.requires_grad for p in _weights(module)))
    if conv.bias is not None:
        # fairchem adds it for each channel of order 0, as we do
        conv.bias.data.copy_(first.bias)
        conv.bias.requires_grad_(first.bias.requires_grad)


def _weights(module: Any) -> list[nn.Parameter]:
    return [p for name, p in module.named_parameters() if not name.startswith("rad_func")]


def _matrix(module: Any, name: str, linear: Any) -> Tensor:
    """Return the weights of a linear layer in float64 on the CPU."""
    if type(linear) is not nn.Linear:
        raise TypeError(
            f"cannot convert a {type(module).__name__} whose {name} is a "
            f"{type(linear).__name__}: expected a Linear; experts are merged into one by "
            "merged_linear_layer of each, or merge_MOLE_model of the model"
        )
    weight: Tensor = linear.weight.detach().double().cpu()
    return weight
