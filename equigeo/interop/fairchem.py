"""Conversion of fairchem modules to this library."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from equigeo.graphs import EdgeIndex
from equigeo.interop.terms import building, copy_state
from equigeo.nn import EquivariantLayerNorm, EquivariantRMSNorm, Gate, Linear, NormalizedActivation
from equigeo.reps import Irreps
from equigeo.reps.irreps import Layout
from equigeo.tensor_products import ChannelwiseConv, SO2Conv, SphericalHarmonics


class RadialConvolution(nn.Module):
    """A convolution by orders with a network that computes its modulation."""

    def __init__(
        self,
        conv: SO2Conv,  # with a modulation
        radial: nn.Module,  # maps edge features to conv.weight_numel factors
    ) -> None:
        super().__init__()
        self.conv, self.radial = conv, radial
        self.irreps_in, self.irreps_out = conv.irreps_in, conv.irreps_out

    def forward(
        self,
        x: Tensor | tuple[Tensor, Tensor | None],
        edge_index: EdgeIndex | Tensor,
        edge_vec: Tensor,
        edge_features: Tensor,  # (edges, features), inputs of the network
        *,
        envelope: Tensor | None = None,
        num_nodes: int | None = None,
    ) -> Tensor:  # (targets, irreps_out.dim)
        """Convolve; other arguments as of ``SO2Conv.forward``."""
        weights = self.radial(edge_features)
        return self.conv(x, edge_index, edge_vec, weights, envelope=envelope, num_nodes=num_nodes)


class EdgeDegreeEmbedding(nn.Module):
    """Sum of harmonics over neighbors with coefficients from a network."""

    # z_tlc = sum over edges e to t of c_e s_lc(e) Y^l(u_e) / rescale
    def __init__(
        self,
        radial: nn.Module,  # maps edge features to (lmax + 1) * channels coefficients
        irreps_out: Irreps,
        rescale: float,  # divisor of the sums
    ) -> None:
        super().__init__()
        channels, layout = irreps_out.terms[0][0], irreps_out.layout
        degrees = Irreps([(1, ir) for _, ir in irreps_out])
        self.radial, self.channels, self.irreps_out = radial, channels, irreps_out
        self.harmonics = SphericalHarmonics(degrees, True, "component")
        scalars = Irreps([(channels, (0, 1))], layout)
        edge = degrees.with_layout(layout)
        self.conv = ChannelwiseConv(scalars, edge, irreps_out, layout=layout)
        # The coupling of a scalar takes the component normalization of harmonics to the norm.
        factors = [1 / (ins.path_weight * rescale) for ins in self.conv.product.instructions]
        self._factors = [factor for factor in factors for _ in range(channels)]

    def forward(
        self,
        edge_index: EdgeIndex | Tensor,  # (2, edges), sources and targets
        edge_vec: Tensor,  # (edges, 3)
        edge_features: Tensor,  # (edges, features)
        num_nodes: int | None = None,  # required if edge_index is a tensor
        *,
        envelope: Tensor | None = None,  # (edges,)
    ) -> Tensor:  # (targets, irreps_out.dim)
        """Embed the edges of each node; fairchem adds the result to node features."""
        sources = edge_index.num_sources if isinstance(edge_index, EdgeIndex) else num_nodes
        if sources is None:
            raise ValueError("num_nodes must be given where edge_index is a tensor, got None")
        weights = self.radial(edge_features)
        weights = weights * weights.new_tensor(self._factors)
        if envelope is not None:
            weights = weights * envelope[:, None]
        ones = torch.ones(sources, self.channels, dtype=weights.dtype, device=weights.device)
        return self.conv(ones, edge_index, self.harmonics(edge_vec), weights, num_nodes=num_nodes)


def natural(channels: int, lmax: int, layout: Layout) -> Irreps:
    """Return the irreps of fairchem features, with equal channels per degree."""
    # fairchem has no parities; with those of harmonics its linear layers are equivariant to O(3).
    return Irreps([(channels, (l, (-1) ** l)) for l in range(lmax + 1)], layout)


def linear(module: Any, layout: Layout) -> Linear:
    """Convert ``SO3_Linear``."""
    sides = [natural(n, module.lmax, layout) for n in (module.in_features, module.out_features)]
    with building():
        converted = Linear(*sides, biases=True, layout=layout)
    # (l, out, in) to blocks (in, out), and out of the normalization that ours are given
    factors = [1 / ins.path_weight for ins in converted.instructions[: module.lmax + 1]]
    scales = module.weight.new_tensor(factors, dtype=torch.float64)
    weight = (module.weight.mT * scales[:, None, None]).to(module.weight.dtype)
    values = {"weight": weight.flatten(), "bias": module.bias}
    copy_state(converted, module.weight, module.training, values)
    return converted


def layer_norm(module: Any, layout: Layout) -> EquivariantLayerNorm:
    """Convert ``EquivariantLayerNormArray``, the ``layer_norm``."""
    return _filled(_layer_norm(module, layout, "separate"), module, _affine(module))


def layer_norm_sh(module: Any, layout: Layout) -> EquivariantLayerNorm:
    """Convert ``EquivariantLayerNormArraySphericalHarmonics``, the ``layer_norm_sh``."""
    _check_balance(module)
    values: dict[str, Tensor] = {}
    if module.affine:
        others = module.affine_weight.flatten()
        values = {"weight": torch.cat([module.norm_l0.weight, others]), "bias": module.norm_l0.bias}
    return _filled(_layer_norm(module, layout, "together"), module, values)


def rms_norm_sh(module: Any, layout: Layout) -> EquivariantRMSNorm:
    """Convert ``EquivariantRMSNormArraySphericalHarmonicsV2``, the ``rms_norm_sh``."""
    _check_balance(module)
    with building():
        converted = EquivariantRMSNorm(
            natural(module.num_channels, module.lmax, layout),
            module.normalization,
            centering=module.centering,
            eps=module.eps,
            affine=module.affine,
            layout=layout,
        )
    return _filled(converted, module, _affine(module))


def gate(module: Any, layout: Layout) -> Gate:
    """Convert ``GateActivation``, of nodes or edge frames: it commutes with rotations."""
    lmax, channels = module.lmax, module.num_channels
    silu = NormalizedActivation(torch.nn.functional.silu, scale=1.0)
    sigmoid = NormalizedActivation(torch.sigmoid, scale=1.0)
    gated = natural(channels, lmax, layout).terms[1:]
    gates, acts = (f"{lmax * channels}x0e", [sigmoid]) if lmax else ("", [])
    converted = Gate(f"{channels}x0e", [silu], gates, acts, gated, layout=layout)
    return converted.train(module.training)


def _layer_norm(module: Any, layout: Layout, degrees: Any) -> EquivariantLayerNorm:
    with building():
        return EquivariantLayerNorm(
            natural(module.num_channels, module.lmax, layout),
            module.normalization,
            degrees=degrees,
            eps=module.eps,
            affine=module.affine,
            layout=layout,
        )


def _affine(module: Any) -> dict[str, Tensor]:
    if not module.affine:
        return {}
    shift = {} if module.affine_bias is None else {"bias": module.affine_bias}
    return {"weight": module.affine_weight.flatten(), **shift}


def _filled(converted: Any, module: Any, values: dict[str, Tensor]) -> Any:
    if values:
        copy_state(converted, values["weight"], module.training, values)
    return converted.train(module.training)


def _check_balance(module: Any) -> None:
    """Raise for the option to weigh degrees by their components, which no model uses."""
    if module.normalization == "component" and not module.std_balance_degrees:
        raise ValueError(
            f"cannot convert a {type(module).__name__} with std_balance_degrees=False: expected "
            "True, where each degree counts alike"
        )


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
    copy_state(conv, first.weight, module.training, {})
    named = module.named_parameters()
    weights = (p for name, p in named if not name.startswith("rad_func"))
    conv.mixing.requires_grad_(any(p.requires_grad for p in weights))
    if conv.bias is not None:
        # fairchem adds it for each channel of order 0, as we do
        conv.bias.data.copy_(first.bias)
        conv.bias.requires_grad_(first.bias.requires_grad)
    if radial is None:
        return conv
    return RadialConvolution(conv, copy.deepcopy(radial.net)).train(module.training)


def _matrix(module: Any, name: str, linear: Any) -> Tensor:
    """Return the weights of a linear layer in float64 on the CPU."""
    if type(linear) is not nn.Linear:
        raise TypeError(
            f"cannot convert a {type(module).__name__} whose {name} is a "
            f"{type(linear).__name__}: expected a Linear; experts are merged into one by "
            "merged_linear_layer of each, or merge_MOLE_model of the model"
        )
    return linear.weight.detach().double().cpu()


_NODES: dict[str, Callable[[Any, Layout], nn.Module]] = {
    "SO3_Linear": linear,
    "EquivariantLayerNormArray": layer_norm,
    "EquivariantLayerNormArraySphericalHarmonics": layer_norm_sh,
    "EquivariantRMSNormArraySphericalHarmonicsV2": rms_norm_sh,
    "GateActivation": gate,
    "EdgeDegreeEmbedding": edge_degree_embedding,
}
_EDGES: dict[str, Callable[[Any, Layout, str], nn.Module]] = {
    "SO2_Convolution": convolution,
    "SO2_Conv1_WithRadialBlock": convolution_with_radial,
    "SO2_Conv2_InternalBlock": convolution,
    "SO2_Linear": real_convolution,
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
    module: nn.Module, *, layout: Layout = "ir_mul", sources: Literal["source", "both"] = "source"
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
        A layer of the table. Experts must be merged; the error message explains how.
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
