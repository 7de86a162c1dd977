"""Convolutions by orders of ours and of fairchem-core, with the same weights.

The peer is rotation matrices from quaternions, gather, ``bmm``, ``SO2_Convolution``, ``bmm`` and
``index_add`` of fairchem-core. Both sides compute their rotations inside.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec, module_from_spec

import torch
from torch import Tensor

from bench.peers import drawn
from equigeo import tensor_products as tp
from equigeo.graphs import EdgeIndex
from equigeo.reps import Irreps

Convolve = Callable[[Tensor, Tensor, Tensor], Tensor]


def import_fairchem() -> None:
    """Let modules of fairchem-core be imported without what its packages import first."""
    for name in ("fairchem", "fairchem.core"):
        if name not in sys.modules and (spec := find_spec(name)):
            sys.modules[name] = module_from_spec(spec)


def fairchem(conv: tp.SO2Conv, lmax: int, mmax: int, channels: int, graph: EdgeIndex) -> Convolve:
    """Return the convolution of fairchem-core with the weights of ours."""
    import_fairchem()
    from fairchem.core.models.uma.common.quaternion.quaternion_wigner_utils import (
        create_wigner_data_module,
    )
    from fairchem.core.models.uma.common.quaternion.wigner_d_hybrid import (
        axis_angle_wigner_hybrid,
    )
    from fairchem.core.models.uma.common.so3 import CoefficientMapping
    from fairchem.core.models.uma.nn.so2_layers import SO2_Convolution

    device, dtype = graph.source.device, torch.float32
    mapping = CoefficientMapping(lmax, mmax)
    layer = SO2_Convolution(channels, channels, lmax, mmax, mapping).to(device, dtype)
    take_weights(conv, layer.requires_grad_(False))
    data = create_wigner_data_module(lmax=lmax, lmin=5).to(device, dtype)
    kept = CoefficientMapping(lmax, lmax).coefficient_idx(lmax, mmax).to(device)
    to_m = mapping.to_m.to(device, dtype)
    source, target, width = graph.source, graph.target, (lmax + 1) ** 2

    def convolve(x: Tensor, vectors: Tensor, scale: Tensor) -> Tensor:
        rotation, _ = axis_angle_wigner_hybrid(
            vectors, lmax, gamma=vectors.new_zeros(len(vectors)), coeffs=data.coeffs,
            U_blocks=data.U_blocks, custom_kernels=data.custom_kernels,
        )  # fmt: skip
        by_order = to_m @ rotation[:, kept]
        sent = torch.bmm(by_order, x.view(-1, width, channels)[source])
        messages = torch.bmm(by_order.mT, layer(sent, scale)).flatten(1)
        return messages.new_zeros(graph.num_targets, messages.shape[1]).index_add(
            0, target, messages
        )

    return convolve


def equigeo(lmax: int, mmax: int, channels: int, graph: EdgeIndex) -> tuple[Convolve, tp.SO2Conv]:
    irreps = Irreps([(channels, (l, (-1) ** l)) for l in range(lmax + 1)], "ir_mul")
    options = {"group": "SO3", "modulation": "order", "bias": True, "layout": "ir_mul"}
    conv = tp.SO2Conv(irreps, irreps, mmax=mmax, **options).to(graph.source.device)
    return lambda x, vectors, scale: conv(x, graph, vectors, scale), conv


def take_weights(conv: tp.SO2Conv, layer: torch.nn.Module) -> None:
    state = layer.state_dict()
    parts = [state["fc_m0.weight"].flatten()]
    parts += [state[f"so2_m_conv.{m - 1}.fc.weight"].flatten() for m in range(1, conv.mmax + 1)]
    conv.set_matrices(torch.cat(parts))
    conv.bias.data.copy_(state["fc_m0.bias"])


def operands(lmax: int, mmax: int, channels: int, graph: EdgeIndex) -> list[Tensor]:
    numbers = channels * sum(lmax + 1 - m for m in range(mmax + 1))
    edges = graph.num_edges
    return drawn((graph.num_targets, channels * (lmax + 1) ** 2), (edges, 3), (edges, numbers))
