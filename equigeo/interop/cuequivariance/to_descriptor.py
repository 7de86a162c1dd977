"""Conversion of modules to cuEquivariance polynomials."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from torch import nn

from equigeo.interop.cuequivariance.irreps import (
    Group,
    require_cue,
    to_cue_irreps,
    to_cue_layout,
)
from equigeo.interop.cuequivariance.subscripts import CONNECTIONS, with_component
from equigeo.interop.descriptions.describe import OURS, describe
from equigeo.interop.descriptions.harmonics_description import HarmonicsDescription
from equigeo.interop.descriptions.linear_description import LinearDescription
from equigeo.interop.descriptions.product_description import ProductDescription, SharedPath
from equigeo.reps import Irreps, wigner_3j


def to_descriptor(module: nn.Module, *, group: Group = "O3") -> Any:
    """Convert a module to a ``cuequivariance.EquivariantPolynomial``.

    Inputs are the flat weights, if any, and the features, in the order and layout of the module.
    Paths of one connection form one ``SegmentedTensorProduct``, with subscripts such as
    ``uvw,iu,jv,kw+ijk``.

    Parameters
    ----------
    module : PathProduct, Linear or SphericalHarmonics
        Without biases, normalization of inputs, and the connections ``uvu<v`` and ``u<vw``.
    group : {"O3", "O3_e3nn"}
        The class of irreps in the descriptor.

    Examples
    --------
    >>> from equigeo.tensor_products import FullyConnectedTensorProduct
    >>> product = FullyConnectedTensorProduct("2x0e+3x1o", "4x0e+5x1o", "6x0e")
    >>> ((_, paths),) = to_descriptor(product).polynomial.operations
    >>> print(paths.subscripts, paths.num_paths)
    uvw,ui,vj,wk+ijk 2
    """
    cue = require_cue()
    _, description = describe(module, OURS)
    if isinstance(description, ProductDescription):
        return _describe_product(cue, description, group)
    if isinstance(description, LinearDescription):
        return _describe_linear(cue, description, group)
    return _describe_harmonics(cue, description, group)


def _describe_product(cue: Any, product: ProductDescription, group: Group) -> Any:
    unknown = {path.connection for path in product.paths} - CONNECTIONS.keys()
    if unknown:
        raise ValueError(
            f"the connections {sorted(unknown)} have no subscripts; those that have are "
            f"{', '.join(CONNECTIONS)}"
        )
    first, second, third = product.operands
    weights = _weights(cue, product)
    operands = [weights, _features(cue, first), _features(cue, second), _outputs(cue, product)]
    operations = []
    for kind in dict.fromkeys((path.connection, path.has_weight) for path in product.paths):
        # Without weights, the buffers are counted from the first features.
        skipped = not kind[1]
        shift = 0 if weights.num_segments else 1
        buffers = tuple(n - shift for n in range(skipped, 4))
        operations.append((buffers, _segmented(cue, product, kind, operands[skipped:])))
    numel = [weights.size] if weights.num_segments else []
    return cue.EquivariantPolynomial(
        _reps(cue, [first, second], group, numel),
        _reps(cue, [third], group),
        cue.SegmentedPolynomial(operands[0 if numel else 1 : 3], operands[3:], operations),
    )


def _weights(cue: Any, product: ProductDescription) -> Any:
    """Return one segment per weighted path, padded by axes of length one."""
    shapes = [path.path_shape for path in product.paths if path.has_weight]
    rank = max(map(len, shapes), default=1)
    segments = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return cue.SegmentedOperand(ndim=rank, segments=segments)


def _features(cue: Any, irreps: Irreps) -> Any:
    shapes = [(mul, 2 * l + 1) for mul, (l, _) in irreps]
    if irreps.layout == "ir_mul":
        shapes = [shape[::-1] for shape in shapes]
    return cue.SegmentedOperand(ndim=2, segments=shapes)


def _outputs(cue: Any, product: ProductDescription) -> Any:
    """Return the output segments; terms of pairs of channels have an axis for each."""
    shapes: list[set[tuple[int, ...]]] = [set() for _ in product.operands[2].terms]
    for path in product.paths:
        sizes = _sizes(product, path)
        shapes[path.i_out].add(tuple(sizes[m] for m in CONNECTIONS[path.connection].out))
    rank = _out_rank(product)
    segments = []
    for n, (muls, (mul, (l, _))) in enumerate(zip(shapes, product.operands[2], strict=True)):
        if len(muls) > 1:
            raise ValueError(f"output term {n} cannot be one segment, its paths make {muls}")
        (shape,) = muls or {(mul,)}
        shape = (1,) * (rank - len(shape)) + shape
        dim = (2 * l + 1,)
        segments.append(dim + shape if product.layout == "ir_mul" else shape + dim)
    return cue.SegmentedOperand(ndim=rank + 1, segments=segments)


def _segmented(
    cue: Any, product: ProductDescription, kind: tuple[str, bool], operands: list[Any]
) -> Any:
    """Return all paths of one connection, weighted or not."""
    connection, weighted = kind
    modes = CONNECTIONS[connection]
    extra = "abc"
    letters = [
        with_component("i", modes.in1, product.layout),
        with_component("j", modes.in2, product.layout),
        with_component(
            "k", extra[: _out_rank(product) - len(modes.out)] + modes.out, product.layout
        ),
    ]
    if weighted:
        pad = "def"[: operands[0].ndim - len(modes.weight)]
        letters.insert(0, pad + modes.weight)
    alone = [m for m in "uvwabcdef" if sum(m in operand for operand in letters) == 1]
    stp = cue.SegmentedTensorProduct(
        list(zip(operands, letters, strict=True)), "ijk" + "".join(alone)
    )
    segment = 0
    for path in product.paths:
        position = (segment,) if weighted else ()
        segment += path.has_weight
        if (path.connection, path.has_weight) != kind:
            continue
        sizes = _sizes(product, path)
        stp.add_path(
            *position,
            path.i_in1,
            path.i_in2,
            path.i_out,
            c=_coefficients(product, path, [sizes.get(m, 1) for m in alone]),
        )
    return stp


def _coefficients(product: ProductDescription, path: SharedPath, alone: list[int]) -> np.ndarray:
    """Return the coupling, constant along the axes of a single operand."""
    positions = (path.i_in1, path.i_in2, path.i_out)
    degrees = [irreps.terms[n][1][0] for irreps, n in zip(product.operands, positions, strict=True)]
    coupling = path.factor * wigner_3j(*degrees).numpy()
    shape = coupling.shape + (1,) * len(alone)
    return np.broadcast_to(coupling.reshape(shape), coupling.shape + tuple(alone))


def _sizes(product: ProductDescription, path: SharedPath) -> dict[str, int]:
    """Return multiplicities by subscript letter."""
    positions = (path.i_in1, path.i_in2, path.i_out)
    muls = [irreps.terms[n][0] for irreps, n in zip(product.operands, positions, strict=True)]
    return dict(zip("uvw", muls, strict=True))


def _out_rank(product: ProductDescription) -> int:
    return max((len(CONNECTIONS[path.connection].out) for path in product.paths), default=1)


def _describe_linear(cue: Any, linear: LinearDescription, group: Group) -> Any:
    if any(linear.biases):
        raise ValueError("a Linear with biases has no descriptor: add them to its output")
    letters = ["uv"] + [with_component("i", m, linear.layout) for m in "uv"]
    sides = [_features(cue, irreps) for irreps in (linear.irreps_in, linear.irreps_out)]
    muls = [[mul for mul, _ in irreps] for irreps in (linear.irreps_in, linear.irreps_out)]
    shapes = [(muls[0][i], muls[1][j]) for i, j in linear.pairs]
    weights = cue.SegmentedOperand(ndim=2, segments=shapes)
    stp = cue.SegmentedTensorProduct(list(zip([weights, *sides], letters, strict=True)))
    for n, ((i, j), factor) in enumerate(zip(linear.pairs, linear.factors, strict=True)):
        stp.add_path(n, i, j, c=factor)
    return cue.EquivariantPolynomial(
        _reps(cue, [linear.irreps_in], group, [weights.size]),
        _reps(cue, [linear.irreps_out], group),
        cue.SegmentedPolynomial.eval_last_operand(stp),
    )


def _describe_harmonics(cue: Any, harmonics: HarmonicsDescription, group: Group) -> Any:
    if harmonics.normalize:
        raise ValueError(
            "SphericalHarmonics with normalize=True are no polynomial: build them with False, and "
            "normalise the vectors first"
        )
    ((_, vector),) = to_cue_irreps(harmonics.irreps_in, group)
    parts = []
    for mul, (l, _) in harmonics.irreps_out:
        scale = {
            "component": 1.0,
            "norm": 1 / math.sqrt(2 * l + 1),
            "integral": 1 / math.sqrt(4 * math.pi),
        }[harmonics.normalization]
        parts += mul * [cue.descriptors.spherical_harmonics(vector, [l]) * scale]
    return cue.EquivariantPolynomial.stack(parts, [False, True])


def _reps(cue: Any, irreps: list[Irreps], group: Group, weights: list[int] | None = None) -> Any:
    """Return irreps with their layouts, after scalars for flat weights."""
    made = [to_cue_irreps(each, group) for each in irreps]
    layout = to_cue_layout(irreps[0].layout)
    scalars = [made[0].new_scalars(numel) for numel in weights or []]
    return [cue.IrrepsAndLayout(each, layout) for each in [*scalars, *made]]
