"""Conversion of fairchem modules to this library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from torch import nn

from equigeo.interop.fairchem import edge_layers, node_layers
from equigeo.reps.irreps import Layout

_NODES: dict[str, Callable[[Any, Layout], nn.Module]] = {
    "SO3_Linear": node_layers.linear,
    "EquivariantLayerNormArray": node_layers.layer_norm,
    "EquivariantLayerNormArraySphericalHarmonics": node_layers.layer_norm_sh,
    "EquivariantRMSNormArraySphericalHarmonicsV2": node_layers.rms_norm_sh,
    "GateActivation": node_layers.gate,
    "EdgeDegreeEmbedding": edge_layers.edge_degree_embedding,
}
_EDGES: dict[str, Callable[[Any, Layout, str], nn.Module]] = {
    "SO2_Convolution": edge_layers.convolution,
    "SO2_Conv1_WithRadialBlock": edge_layers.convolution_with_radial,
    "SO2_Conv2_InternalBlock": edge_layers.convolution,
    "SO2_Linear": edge_layers.real_convolution,
}
_APPROXIMATE = (
    "a function of values on a grid is not equivariant, and depends on the grid: train "
    "equigeo.tensor_products.S2SwiGLU or S2Activation in its place"
)
_PART = "it is a part of SO2_Convolution: convert that"
_REFUSED = {
    "MOLE": "merge its experts by merged_linear_layer, or by merge_MOLE_model of the model",
    "MOLEDGL": "merge its experts by merged_linear_layer, or by merge_MOLE_model of the model",
    "S2Activation": _APPROXIMATE,
    "S2Activation_M": _APPROXIMATE,
    "SeparableS2Activation": _APPROXIMATE,
    "SeparableS2Activation_M": _APPROXIMATE,
    "SO2_m_Conv": _PART,
    "SO2_m_Conv_Block": _PART,
    "EquivariantRMSNormArraySphericalHarmonics": "no model of fairchem uses it",
}
_PACKAGE = "fairchem.core.models.uma."


def from_fairchem(
    module: nn.Module,
    *,
    layout: Layout = "ir_mul",
    sources: Literal["source", "both"] = "source",
) -> Any:
    """Convert a layer of fairchem-core 2 to a module of this library.

    Features ``(nodes, (lmax + 1)^2, channels)`` of fairchem are ``x.flatten(1)`` in the layout
    ``ir_mul``, irreps ``Cx0e + Cx1o + Cx2e + ...``. Weights are copied; dtype, device, ``training``
    and ``requires_grad`` stay.

    ===================================== =========================================================
    fairchem                              equigeo
    ===================================== =========================================================
    ``SO3_Linear``                        :class:`equigeo.nn.Linear`
    ``EquivariantLayerNormArray``         :class:`equigeo.nn.EquivariantLayerNorm`
    ``...ArraySphericalHarmonics``        the same, ``degrees="together"``
    ``EquivariantRMSNorm...V2``           :class:`equigeo.nn.EquivariantRMSNorm`
    ``GateActivation``                    :class:`equigeo.nn.Gate` of scalars, gates and the rest
    ``SO2_Convolution`` and its blocks    :class:`equigeo.tensor_products.SO2Conv` of SO(3)
    ``SO2_Linear``                        :class:`equigeo.tensor_products.SO2Conv` of O(3)
    ``EdgeDegreeEmbedding``               :class:`equigeo.tensor_products.ChannelwiseConv`
    ===================================== =========================================================

    Edge layers gather, rotate, mix, rotate back and sum in one call; for separate messages, use a
    graph with one target per edge. Extra outputs of order 0 come first, as scalars. A radial
    network of fairchem becomes ``radial`` beside ``conv``, with edge features instead of weights as
    input. ``edge_vec`` points from targets to sources, ``pos[edge_index[0]] - pos[edge_index[1]]``;
    the envelope is an argument.

    Parameters
    ----------
    module : Module
        A layer of the table. Experts must be merged; the error message says how.
    layout : {"ir_mul", "mul_ir"}
        Layout of the new module.
    sources : {"source", "both"}
        Whether the channels of a convolution are those of the source of an edge, or of source and
        target concatenated, as in UMA.

    Examples
    --------
    >>> from_fairchem(nn.Linear(3, 3))
    Traceback (most recent call last):
    ...
    TypeError: cannot convert torch.nn.modules.linear.Linear: expected a layer of fairchem-core 2...
    """
    if sources not in ("source", "both"):
        raise ValueError(f'sources must be "source" or "both", got {sources!r}')
    if layout not in ("mul_ir", "ir_mul"):
        raise ValueError(f'layout must be "mul_ir" or "ir_mul", got {layout!r}')
    cls = type(module)
    name = cls.__qualname__ if cls.__module__.startswith(_PACKAGE) else ""
    if name in _EDGES:
        return _EDGES[name](module, layout, sources)
    if sources == "both" and name in _NODES:
        raise ValueError(f'sources="both" is for convolutions, got {name}')
    if name in _NODES:
        return _NODES[name](module, layout)
    why = _REFUSED.get(name)
    if why is None:
        why = f"expected a layer of fairchem-core 2: {', '.join([*_NODES, *_EDGES])}"
    raise TypeError(f"cannot convert {cls.__module__}.{cls.__qualname__}: {why}")
