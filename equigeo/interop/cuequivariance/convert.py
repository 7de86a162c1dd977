"""Conversion of cuEquivariance modules to this library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from equigeo.interop._require import require
from equigeo.interop.cuequivariance.from_descriptor import from_descriptor
from equigeo.interop.cuequivariance.irreps import (
    from_cue_irreps,
    from_cue_layout,
    require_cue,
)
from equigeo.interop.descriptions.describe import OURS
from equigeo.interop.descriptions.module_state import building, copy_state
from equigeo.interop.reorder import reorder
from equigeo.reps import Irreps
from equigeo.reps.irreps import Layout
from equigeo.tensor_products import SymmetricContraction


def convert(module: nn.Module) -> Any:
    """Convert a module of ``cuequivariance_torch`` to a module of this library.

    Weights are copied in the same flat order, without cuEquivariance's leading axis of length one;
    those of a ``SymmetricContraction`` with ``original_mace=False`` are transformed to the basis of
    MACE. Dtype, device, ``training``, ``requires_grad`` and layout stay. Products take no indices
    into nodes: gather before.

    Parameters
    ----------
    module : Linear, FullyConnectedTensorProduct, ChannelWiseTensorProduct, SphericalHarmonics \
or SymmetricContraction
        With any ``method``, one layout and one class of weights, and paths in the order of MACE.

    Returns
    -------
    Module
        ``Linear``, ``FullyConnectedTensorProduct``, ``TensorProduct`` with the paths in their
        order, ``SphericalHarmonics`` or ``SymmetricContraction``.

    Examples
    --------
    >>> import cuequivariance as cue
    >>> import cuequivariance_torch as cuet
    >>> irreps = cue.Irreps(cue.O3, "2x0e+3x1o")
    >>> convert(cuet.Linear(irreps, irreps, layout=cue.mul_ir)).weight_numel
    13
    """
    cuet = require("cuequivariance_torch", "cuequivariance-torch")
    for name, converter in _CONVERTERS.items():
        if isinstance(module, getattr(cuet, name)):
            return converter(module)
    cls = type(module)
    raise TypeError(
        f"cannot convert {cls.__module__}.{cls.__qualname__}: expected one of "
        f"{', '.join(_CONVERTERS)} of cuequivariance_torch"
    )


def _convert_linear(module: Any) -> Any:
    if module.weight_classes != 1:
        raise ValueError(
            f"a Linear has one class of weights, got weight_classes={module.weight_classes}"
        )
    sides = _read_irreps(
        (module.irreps_in, module.transpose_in.source),
        (module.irreps_out, module.transpose_out.target),
    )
    with building():
        converted = OURS.Linear(*sides, layout=sides[0].layout, **_flags(module))
    return _with_state(converted, module)


def _convert_fully_connected(module: Any) -> Any:
    operands = _read_irreps(*_operands(module))
    with building():
        converted = OURS.FullyConnectedTensorProduct(
            *operands, layout=operands[0].layout, **_flags(module)
        )
    return _with_state(converted, module)


def _convert_channelwise(module: Any) -> Any:
    cue = require_cue()
    operands = _read_irreps(*_operands(module))
    descriptor = cue.descriptors.channelwise_tensor_product(
        module.irreps_in1, module.irreps_in2, [ir for _, ir in module.irreps_out]
    )
    with building():
        converted = from_descriptor(descriptor, **_flags(module))
    converted = reorder(converted, layout=operands[0].layout)
    return _with_state(converted, module)


def _convert_harmonics(module: Any) -> Any:
    converted = OURS.SphericalHarmonics(module.ls, module.normalize, "component")
    return converted.train(module.training)


def _convert_contraction(module: Any) -> Any:
    group, degree = module.irreps_in.irrep_class.__name__, module.contraction_degree
    if group == "O3" and degree > 2:
        raise ValueError(
            f"paths of degree {degree} are sorted as in MACE with irreps O3_e3nn only, got O3"
        )
    irreps_in, irreps_out = _read_irreps(
        (module.irreps_in, module.transpose_in.source),
        (module.irreps_out, module.transpose_out.target),
    )
    with building():
        converted = SymmetricContraction(
            irreps_in,
            irreps_out,
            degree,
            module.num_elements,
            basis="original",
            layout=irreps_in.layout,
        )
    weight = module.weight
    if module.projection is None:
        learned = weight.requires_grad
        weight = _weights_of_mace(module).to(weight.dtype).requires_grad_(learned)
    copy_state(converted, module.weight, module.training, {"weight": weight})
    return converted


def _weights_of_mace(module: Any) -> Tensor:
    """Return weights of the overcomplete basis of MACE for the same map, (elements, paths, mul)."""
    sides = module.irreps_in, module.irreps_out, module.contraction_degree
    options = {"layout": require_cue().ir_mul, "original_mace": True, "method": "naive"}
    projection = type(module)(*sides, 1, dtype=torch.float64, **options).projection
    inverse = torch.linalg.pinv(projection).to(module.weight.device)
    return torch.einsum("zbu,ba->zau", module.weight.detach().double(), inverse)


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "Linear": _convert_linear,
    "FullyConnectedTensorProduct": _convert_fully_connected,
    "ChannelWiseTensorProduct": _convert_channelwise,
    "SphericalHarmonics": _convert_harmonics,
    "SymmetricContraction": _convert_contraction,
}


def _operands(module: Any) -> tuple[tuple[Any, Any], ...]:
    return (
        (module.irreps_in1, module.transpose_in1.source),
        (module.irreps_in2, module.transpose_in2.source),
        (module.irreps_out, module.transpose_out.target),
    )


def _read_irreps(*operands: tuple[Any, Any]) -> list[Irreps]:
    """Convert irreps that share a layout, or have equal data in both."""
    layouts: set[Layout] = {
        from_cue_layout(layout)
        for irreps, layout in operands
        if any(mul > 1 and ir.dim > 1 for mul, ir in irreps)
    }
    if len(layouts) > 1:
        raise ValueError("inputs and output must have one layout, got mul_ir and ir_mul")
    layout = layouts.pop() if layouts else "mul_ir"
    return [from_cue_irreps(irreps, layout) for irreps, _ in operands]


def _flags(module: Any) -> dict[str, bool]:
    return {
        "internal_weights": module.internal_weights,
        "shared_weights": module.shared_weights,
    }


def _with_state(converted: nn.Module, module: Any) -> nn.Module:
    weight = module.weight
    # Where weights are external, no tensor of the module tells its dtype and device.
    like = torch.empty(0) if weight is None else weight
    values = {} if weight is None else {"weight": weight[0]}
    copy_state(converted, like, module.training, values)
    return converted
