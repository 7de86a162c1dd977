"""Conversion of cuEquivariance polynomials to modules."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from equigeo.interop.cuequivariance.irreps import from_cue_irreps, require_cue
from equigeo.interop.cuequivariance.read_paths import read_paths
from equigeo.interop.cuequivariance.subscripts import without_component
from equigeo.interop.cuequivariance.to_descriptor import to_descriptor
from equigeo.interop.descriptions.coupling_signs import turn_paths
from equigeo.interop.descriptions.describe import OURS
from equigeo.interop.descriptions.product_description import SharedPath
from equigeo.nn.reached import allow_unreached
from equigeo.reps import Irreps


class _Ownership(NamedTuple):
    """Options of weight ownership; None selects the default of the constructor."""

    internal_weights: bool | None
    shared_weights: bool | None


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
    ownership = _Ownership(internal_weights, shared_weights)
    stps = [stp for _, stp in operations]
    make = _linear if inputs == 2 and all(map(_is_linear, stps)) else _product
    module = make(stps, irreps, ownership)
    numel = irreps[0].dim if make is _linear or inputs == 3 else 0
    if module.weight_numel != numel:
        raise ValueError(f"{numel} weights are declared, but paths use {module.weight_numel}")
    return module


def _is_linear(stp: Any) -> bool:
    return len(stp.operands) == 3 and not stp.coefficient_subscripts


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
            **ownership._asdict(),
        )
        factors = [block.path_weight for block in module.instructions]
        if all(map(math.isclose, factors, (factor for _, factor in blocks))):
            return module
    raise ValueError("the coefficients are neither element nor path normalised")


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
        **ownership._asdict(),
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
