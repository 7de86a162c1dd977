"""Conversion of irreps and modules from and to irreps and polynomials of cuEquivariance."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from torch import nn

from equigeo.interop.accelerated.descriptions import (
    OURS,
    HarmonicsDescription,
    LinearDescription,
    ProductDescription,
    SharedPath,
    describe,
)
from equigeo.interop.optional import require
from equigeo.reps import Irreps, wigner_3j
from equigeo.reps.irreps import Layout

Group = Literal["O3", "O3_e3nn"]


class Modes(NamedTuple):
    """Subscript letters of the multiplicities of each operand of a connection."""

    weight: str
    in1: str
    in2: str
    out: str


# "uvu<v" and "u<vw" are missing: pairs of channels are no axis of a segment.
CONNECTIONS = {
    "uvw": Modes("uvw", "u", "v", "w"),
    "uvu": Modes("uv", "u", "v", "u"),
    "uvv": Modes("uv", "u", "v", "v"),
    "uuw": Modes("uw", "u", "u", "w"),
    "uuu": Modes("u", "u", "u", "u"),
    "uvuv": Modes("uv", "u", "v", "uv"),
}


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
    # One segment per weighted path, padded by axes of length one.
    shapes = [path.path_shape for path in product.paths if path.has_weight]
    rank = max(map(len, shapes), default=1)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    weights = cue.SegmentedOperand(ndim=rank, segments=padded)
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
    layout = getattr(cue, irreps[0].layout)
    scalars = [made[0].new_scalars(numel) for numel in weights or []]
    return [cue.IrrepsAndLayout(each, layout) for each in [*scalars, *made]]


def with_component(component: str, multiplicities: str, layout: Layout) -> str:
    """Add the letter of a component before or after those of multiplicities."""
    return component + multiplicities if layout == "ir_mul" else multiplicities + component


def require_cue() -> Any:
    """Import ``cuequivariance``, or raise an error with the install command."""
    return require("cuequivariance", "cuequivariance")


def to_cue_irreps(irreps: Irreps | str, group: Group = "O3") -> Any:
    """Convert irreps to cuEquivariance, with the same terms.

    ``group`` is the class of irreps, "O3" or "O3_e3nn", which determines how cuEquivariance sorts.

    Examples
    --------
    >>> to_cue_irreps("16x0e + 8x1o")
    16x0e+8x1o
    """
    cue = require_cue()
    if group == "O3":
        irrep = cue.O3
    elif group == "O3_e3nn":
        experimental = require("cuequivariance.group_theory.experimental.e3nn", "cuequivariance")
        irrep = experimental.O3_e3nn
    else:
        raise ValueError(f'group must be "O3" or "O3_e3nn", got {group!r}')
    terms = Irreps(irreps).terms if isinstance(irreps, str) else irreps.terms
    return cue.Irreps(irrep, [(mul, irrep(l=l, p=p)) for mul, (l, p) in terms])


def from_cue_irreps(irreps: Any, layout: Layout | None = None) -> Irreps:
    """Convert irreps of cuEquivariance.

    Parameters
    ----------
    irreps : cuequivariance.Irreps or cuequivariance.IrrepsAndLayout
        Of O(3), or of SO(3), which become even, so that products remain the same.
    layout : {"mul_ir", "ir_mul"}, optional
        By default that of ``irreps`` if it has one, else ``"mul_ir"``.

    Examples
    --------
    >>> import cuequivariance as cue
    >>> from_cue_irreps(cue.IrrepsAndLayout(cue.Irreps("SO3", "2x0+3x1"), cue.ir_mul))
    Irreps('2x0e+3x1e', layout='ir_mul')
    """
    cue = require_cue()
    if isinstance(irreps, cue.IrrepsAndLayout):
        layout = layout or from_cue_layout(irreps.layout)
        irreps = irreps.irreps
    if not isinstance(irreps, cue.Irreps) or not issubclass(irreps.irrep_class, (cue.O3, cue.SO3)):
        raise TypeError(f"expected irreps of O3 or SO3 of cuequivariance, got {irreps!r}")
    return Irreps([(mul, (ir.l, getattr(ir, "p", 1))) for mul, ir in irreps], layout or "mul_ir")


def from_cue_layout(layout: Any) -> Layout:
    """Return the name of a layout of cuEquivariance."""
    return "mul_ir" if layout == require_cue().mul_ir else "ir_mul"


def read_paths(
    stp: Any,  # operands are the weights, if any, both inputs and the output
    irreps: Sequence[Irreps],  # both inputs and the output, in the layout of the segments
) -> Iterator[tuple[int | None, SharedPath]]:
    """Yield the weight segment and the path, without shape, of each path of a product."""
    letters = [subscripts for _, subscripts in stp.operands_and_subscripts]
    if len(letters) not in (3, 4):
        raise ValueError(f"{stp.subscripts} is no product of two features")
    weight = letters[0] if len(letters) == 4 else ""
    split = [without_component(text, irreps[0].layout) for text in letters[-3:]]
    components = [component for component, _ in split]
    muls = [modes for _, modes in split]
    coefficient = stp.coefficient_subscripts
    if not set(components) <= set(coefficient) or len(set(components)) < 3:
        raise ValueError(f"{stp.subscripts} couples no components of two features to those of one")
    _check_segments(stp, irreps)
    axes = [coefficient.index(m) for m in components]
    axes += [n for n, m in enumerate(coefficient) if m not in components]
    for path in stp.paths:
        indices = path.indices[-3:]
        terms = [each.terms[n] for each, n in zip(irreps, indices, strict=True)]
        # Axes of length one that only fill up a segment, or the single output of a sum.
        padding = {m for m in coefficient if stp.get_path_dim(path, m) == 1} - {*muls[0], *muls[1]}
        connection = _connection(weight, muls, padding, stp)
        if connection == "uvuv" and terms[1][0] == 1:
            connection = "uvu"
        degrees = [l for _, (l, _) in terms]
        factor = _factor(np.transpose(path.coefficients, axes), degrees)
        position = path.indices[0] if weight else None
        yield (
            position,
            SharedPath(indices[0], indices[1], indices[2], connection, bool(weight), factor, ()),
        )


def without_component(subscripts: str, layout: Layout) -> tuple[str, str]:
    """Separate the letter of the component from those of multiplicities."""
    if layout == "ir_mul":
        return subscripts[:1], subscripts[1:]
    return subscripts[-1:], subscripts[:-1]


def _check_segments(stp: Any, irreps: Sequence[Irreps]) -> None:
    """Raise if the segments of operands are not the terms of their irreps."""
    for operand, each in zip(stp.operands[-3:], irreps, strict=True):
        found = [
            (shape[0], math.prod(shape[1:]))
            if each.layout == "ir_mul"
            else (shape[-1], math.prod(shape[:-1]))
            for shape in operand.segments
        ]
        expected = [(2 * l + 1, mul) for mul, (l, _) in each]
        if found != expected:
            raise ValueError(f"segments {operand.segments} are not the terms of {each}")


def _connection(weight: str, muls: Sequence[str], padding: set[str], stp: Any) -> str:
    """Return the name of the connection of channels and weights."""
    names: dict[str, str] = {}
    for letter, name in ((muls[0], "u"), (muls[1], "v")):
        names.setdefault(letter, name)
    found = [
        "".join(names.get(m, "w") for m in text if m not in padding) for text in (weight, *muls)
    ]
    for connection, modes in CONNECTIONS.items():
        wanted = modes if weight else ("", *modes[1:])
        if found == list(wanted):
            return connection
    if found == ["", "u", "u", ""]:
        return "uuw"
    raise ValueError(f"{stp.subscripts} is no connection of a TensorProduct")


def _factor(coefficients: np.ndarray, degrees: Sequence[int]) -> float:
    """Return the ratio of a coupling to the coupling of unit norm."""
    expected = wigner_3j(*degrees).numpy()
    if coefficients.shape[:3] != expected.shape:
        raise ValueError(
            f"coefficients of degrees {degrees} must be {expected.shape}, "
            f"got {coefficients.shape[:3]}"
        )
    given = coefficients.reshape(*expected.shape, -1)
    factor = float((given[..., :1] * expected[..., None]).sum())
    # cuEquivariance computes couplings of "O3_e3nn" in float32.
    if np.abs(given - factor * expected[..., None]).max() > 1e-6 * max(abs(factor), 1):
        raise ValueError(f"coefficients of degrees {degrees} are no multiple of a coupling")
    return factor
