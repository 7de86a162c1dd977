"""Conversion of modules and polynomials of cuEquivariance to this library."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from equigeo.interop.accelerated.descriptions import OURS, SharedPath
from equigeo.interop.cuequivariance.descriptors import (
    from_cue_irreps,
    from_cue_layout,
    read_paths,
    require_cue,
    to_descriptor,
    without_component,
)
from equigeo.interop.e3nn import reorder
from equigeo.interop.optional import require
from equigeo.interop.terms import building, copy_state, turn_paths
from equigeo.nn.module import allow_unreached
from equigeo.reps import Irreps
from equigeo.reps.irreps import Layout
from equigeo.tensor_products import SymmetricContraction

_Ownership = dict[str, bool | None]  # options of weights; None is the default


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
    sides = _read_irreps(*_sides(module))
    with building():
        converted = OURS.Linear(*sides, layout=sides[0].layout, **_flags(module))
    return _with_state(converted, module)


def _convert_fully_connected(module: Any) -> Any:
    operands = _read_irreps(*_sides(module, "in1", "in2"))
    with building():
        converted = OURS.FullyConnectedTensorProduct(
            *operands, layout=operands[0].layout, **_flags(module)
        )
    return _with_state(converted, module)


def _convert_channelwise(module: Any) -> Any:
    cue = require_cue()
    operands = _read_irreps(*_sides(module, "in1", "in2"))
    descriptor = cue.descriptors.channelwise_tensor_product(
        module.irreps_in1, module.irreps_in2, [ir for _, ir in module.irreps_out]
    )
    with building():
        converted = from_descriptor(descriptor, **_flags(module))
    converted = reorder(converted, layout=operands[0].layout)
    return _with_state(converted, module)


def _convert_contraction(module: Any) -> Any:
    group, degree = module.irreps_in.irrep_class.__name__, module.contraction_degree
    if group == "O3" and degree > 2:
        raise ValueError(
            f"paths of degree {degree} are sorted as in MACE with irreps O3_e3nn only, got O3"
        )
    irreps_in, irreps_out = _read_irreps(*_sides(module))
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
    "SphericalHarmonics": lambda module: OURS.SphericalHarmonics(
        module.ls, module.normalize, "component"
    ).train(module.training),
    "SymmetricContraction": _convert_contraction,
}


def _sides(module: Any, *inputs: str) -> list[tuple[Any, Any]]:
    """Return the irreps and layouts of inputs, by the ends of their names, and of the output."""
    names = inputs or ("in",)
    sides = [(f"irreps_{n}", getattr(module, f"transpose_{n}").source) for n in names]
    sides.append(("irreps_out", module.transpose_out.target))
    return [(getattr(module, name), layout) for name, layout in sides]


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
    return {name: getattr(module, name) for name in ("internal_weights", "shared_weights")}


def _with_state(converted: nn.Module, module: Any) -> nn.Module:
    weight = module.weight
    # Where weights are external, no tensor of the module has its dtype and device.
    like = torch.empty(0) if weight is None else weight
    values = {} if weight is None else {"weight": weight[0]}
    copy_state(converted, like, module.training, values)
    return converted


@allow_unreached()
def from_descriptor(
    descriptor: Any, *, internal_weights: bool | None = None, shared_weights: bool | None = None
) -> Any:
    """Build the module that computes a ``cuequivariance.EquivariantPolynomial``.

    Supported are linear maps, products of two features with the weights of any connection, and
    spherical harmonics, before modes are flattened. Weights and features keep order and layout.

    Parameters
    ----------
    descriptor : cuequivariance.EquivariantPolynomial
        Such as ``cuequivariance.descriptors.fully_connected_tensor_product``.
    internal_weights, shared_weights : bool, optional
        As in the modules.

    Returns
    -------
    Linear, TensorProduct or SphericalHarmonics
        Weighted pairs of channels become the connection ``uvu`` if the second input has one
        channel, else ``uvuv``.

    Examples
    --------
    >>> import cuequivariance as cue
    >>> irreps = cue.Irreps(cue.O3, "2x0e+3x1o")
    >>> from_descriptor(cue.descriptors.linear(irreps, irreps)).rep_out
    Irreps('2x0e+3x1o', layout='ir_mul')
    """
    cue = require_cue()
    if not isinstance(descriptor, cue.EquivariantPolynomial):
        raise TypeError(f"expected an EquivariantPolynomial, got {type(descriptor).__qualname__}")
    irreps = [from_cue_irreps(rep) for rep in descriptor.operands]
    inputs, outputs = descriptor.num_inputs, descriptor.num_outputs
    layouts = [each.layout for each in irreps]
    if inputs > 3 or outputs != 1 or len(set(layouts)) > 1:
        raise ValueError(
            f"expected up to 3 inputs, 1 output and one layout, got {inputs}, {outputs}, {layouts}"
        )
    if inputs == 1:
        return _harmonics(descriptor, irreps)
    operations = descriptor.polynomial.operations
    for operation, _ in operations:
        if len(set(operation.buffers)) < len(operation.buffers):
            raise ValueError(f"an input occurs twice in a product: {operation.buffers}")
    ownership = {"internal_weights": internal_weights, "shared_weights": shared_weights}
    stps = [stp for _, stp in operations]
    is_linear = all(len(x.operands) == 3 and not x.coefficient_subscripts for x in stps)
    make = _linear if inputs == 2 and is_linear else _product
    module = make(stps, irreps, ownership)
    numel = irreps[0].dim if make is _linear or inputs == 3 else 0
    if module.weight_numel != numel:
        raise ValueError(f"{numel} weights are declared, but paths use {module.weight_numel}")
    return module


def _linear(stps: list[Any], irreps: list[Irreps], ownership: _Ownership) -> Any:
    """Build a linear map from blocks between equal irreps, in one of two normalizations."""
    _, irreps_in, irreps_out = irreps
    blocks = sorted((path.indices, float(path.coefficients)) for stp in stps for path in stp.paths)
    for stp in stps:
        weight, *sides = (letters for _, letters in stp.operands_and_subscripts)
        (i, u), (k, w) = (without_component(text, irreps_in.layout) for text in sides)
        if (u + w, i) != (weight, k):
            raise ValueError(f"{stp.subscripts} is no linear map that mixes channels")
    pairs = [indices[1:] for indices, _ in blocks]
    for normalization in ("element", "path"):
        module = OURS.Linear(
            irreps_in,
            irreps_out,
            instructions=pairs,
            path_normalization=normalization,
            layout=irreps_in.layout,
            **ownership,
        )
        factors = [block.path_weight for block in module.instructions]
        if all(map(math.isclose, factors, (factor for _, factor in blocks))):
            return module
    raise ValueError("the coefficients are neither element nor path normalized")


def _product(stps: list[Any], irreps: list[Irreps], ownership: _Ownership) -> Any:
    """Build a product from paths in the order of their weights, unweighted ones last."""
    weighted: dict[int, SharedPath] = {}
    unweighted: list[SharedPath] = []
    for stp in stps:
        for position, path in read_paths(stp, irreps[-3:]):
            if position is None:
                unweighted.append(path)
            elif weighted.setdefault(position, path) is not path:
                raise ValueError(f"segment {position} of the weights has more than one path")
    paths = [weighted[position] for position in sorted(weighted)] + unweighted
    module = OURS.TensorProduct(
        *irreps[-3:],
        [(*path[:5], path.factor**2) for path in paths],
        irrep_normalization="none",
        path_normalization="none",
        layout=irreps[0].layout,
        **ownership,
    )
    turn_paths(module, [math.copysign(1.0, path.factor) for path in paths])
    return module


def _harmonics(descriptor: Any, irreps: list[Irreps]) -> Any:
    """Recognize spherical harmonics by comparison with those of the same degrees."""
    irreps_in, irreps_out = (Irreps(each.terms) for each in irreps)
    for normalization in ("component", "integral", "norm"):
        module = OURS.SphericalHarmonics(irreps_out, False, normalization, irreps_in)
        if to_descriptor(module).polynomial == descriptor.polynomial:
            return module
    raise ValueError(f"{irreps_in} -> {irreps_out} of one input are no spherical harmonics")
