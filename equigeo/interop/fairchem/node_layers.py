"""Layers of fairchem that act on the features of each node separately."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from equigeo.interop.descriptions.module_state import building, copy_state
from equigeo.nn import (
    EquivariantLayerNorm,
    EquivariantRMSNorm,
    Gate,
    Linear,
    NormalizedActivation,
)
from equigeo.reps import Irreps
from equigeo.reps.irreps import Layout


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
