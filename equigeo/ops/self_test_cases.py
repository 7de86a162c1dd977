"""Small fixed problems on which the kernels of a device are tested, one for each op.

Each has more channels than a warp has lanes, more edges than a batch, or odd sizes, where the op
has these; none takes longer than some milliseconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, combinations_with_replacement, product
from typing import Any

import torch
from torch import Tensor

from equigeo.ops.edges.segment_attention import LISTS
from equigeo.ops.edges.so2_table import SO2Table
from equigeo.ops.geometry.axis_rules import ScaleRule, SignRule
from equigeo.ops.path_table import Path, PathTable, Segment
from equigeo.ops.polynomial_table import Polynomial, PolynomialTable
from equigeo.ops.products.channelwise_conv import GRAPH

NODES, EDGES = 7, 40

CONDITION = 20_000
"""What amplifies rounding of eigenvectors, as a number of terms: gaps of the spectra below."""


@dataclass(frozen=True, eq=False)
class Case:
    """Arguments of an op for a self-test: differentiated features first, then the rest."""

    op: str  # name in torch.ops.equigeo
    features: tuple[Tensor, ...]  # float64, with values that are exact in bfloat16
    rest: tuple[Any, ...]  # tables in float64, indices, numbers
    terms: int = EDGES * NODES  # length of the longest sum
    differentiable: int | None = None  # number of leading differentiable results, by default all
    others: tuple[Case, ...] = ()  # other problems of the op, for kernels of their own
    orders: int = 2  # of derivatives


def all_cases() -> list[Case]:
    """Return one case per op with kernels for any device."""
    parts = (_segments, _sphere, _clouds, _norm, _products, _orders, _linear, _polynomials)
    return list(chain.from_iterable(part() for part in parts))


def draw_features(*shapes: tuple[int, ...]) -> tuple[Tensor, ...]:
    """Return fixed random tensors of order one, exact in every dtype."""
    generator = torch.Generator().manual_seed(0)
    drawn = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return tuple(x.bfloat16().double() for x in drawn)


def example_graph() -> dict[str, Tensor]:
    """Return the index tensors of a graph with parallel edges and isolated nodes."""
    k = torch.arange(EDGES)
    source, target = (3 * k + k // 5) % (NODES - 1), (k * k + 1) % 5  # 0, 1 and 2 alone
    order = torch.argsort(target, stable=True)
    source, target = source[order], target[order]
    back_order = torch.argsort(source, stable=True)
    # In the order in which convolutions take them.
    found = (source, _offsets(target), order, target, back_order, _offsets(source))
    return dict(zip(GRAPH, found, strict=True))


def _offsets(group: Tensor, size: int = NODES) -> Tensor:
    counts = torch.bincount(group, minlength=size)
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def _segments() -> Iterator[Case]:
    graph, width, out = example_graph(), 5, 6
    values, scores, channels = (NODES, 2, 5), (EDGES, 2), (NODES, 37)
    back_target = graph["target"][graph["back_order"]]
    index = (graph["source"], graph["ptr"], back_target, graph["back_ptr"])
    yield Case("gather_sum", draw_features(channels), index)
    rest = tuple(graph[name] for name in LISTS)
    yield Case("segment_attention", draw_features(values, scores), rest)
    *others, attention = draw_features(values, scores, values, scores)
    features = (*others, attention.sigmoid().bfloat16().double())
    yield Case("segment_attention_backward", features, rest)

    x, logits, *weights = draw_features((NODES, width), scores, (out, width), (out, width))
    grads = draw_features((NODES, out), scores)
    attention = logits.sigmoid().bfloat16().double()
    yield Case("attention_conv", (x, logits, *weights), rest)
    yield Case("attention_conv_backward", (*grads, x, attention, *weights), rest)


# Squares of the coefficients of spherical harmonics of mean square one up to degree 2: up, down,
# start, along, raised and lowered, by order and degree.
_HARMONICS = [
    [[0, 3, 15 / 4], [0, 0, 5], [0, 0, 0]],
    [[0, 0, 5 / 4], [0, 0, 0], [0, 0, 0]],
    [[1, 0, 0], [0, 3, 0], [0, 0, 15 / 4]],
    [[0, 3, 20 / 3], [0, 0, 5], [0, 0, 0]],
    [[0, 0, -5 / 3], [0, 0, 0], [0, 0, 0]],
    [[0, 0, 10 / 3], [0, 12, 20], [0, 0, 20]],
]


def _sphere() -> Iterator[Case]:
    squares = torch.tensor(_HARMONICS, dtype=torch.float64)
    rest = (squares.sign() * squares.abs().sqrt(), [0, 1, 2], True)
    points, grad = (EDGES, 3), (EDGES, 9)
    yield Case("spherical_harmonics", draw_features(points), rest)
    yield Case("spherical_harmonics_backward", draw_features(grad, points), rest)
    yield Case("spherical_harmonics_double_backward", draw_features(points, grad, points), rest)
    tables = []
    for lmax in (2, 1, 3):  # arbitrary numbers: the op is trilinear for any tables
        for size, nodes in (((lmax + 1) ** 2, 4), (2 * lmax + 1, 7)):
            numbers = torch.arange(size * nodes, dtype=torch.float64)
            tables.append((numbers + size).sin().view(1, size, nodes))
    yield Case("grid_product", draw_features((NODES, 9), (NODES, 4)), tuple(tables))


def _clouds() -> Iterator[Case]:
    points, clouds = 30, 3
    ptr = torch.tensor([0, 8, 19, points])
    weight = (0.7 * torch.arange(points, dtype=torch.float64)).sin() + 1.2
    spectrum = torch.tensor([1, 0.5, 0.25], dtype=torch.float64)
    (cloud,) = draw_features((points, 3))
    skew = ((cloud + 0.3 * cloud.square()) * spectrum).bfloat16().double()
    rules = (int(SignRule.LEAST), int(ScaleRule.PAIRS))
    numbers = (True, *rules, 1e-6, 1e-12)
    yield Case("principal_axes", (skew,), (ptr, weight, *numbers), CONDITION, differentiable=5)

    rows, square, one = (clouds, 3), (clouds, 3, 3), (clouds, 1)
    shapes = [(points, 3), square, rows, rows, one, (points, 3), square, rows, one]
    *features, spread, size = draw_features(*shapes)
    # Positive, and spreads apart from one another.
    spread = (spectrum * (1 + 0.1 * spread.sigmoid())).bfloat16().double()
    size = (size.sigmoid() + 0.5).bfloat16().double()
    rest = (ptr, weight, True, int(ScaleRule.PAIRS), 1e-12)
    yield Case("principal_axes_backward", (*features, spread, size), rest, CONDITION)

    margin, centroid = draw_features(rows, rows)
    flagged = (margin, centroid, ptr, weight, int(SignRule.LEAST), 1e-7, 1e-4, 1e-5)
    yield Case("axis_flags", (spread,), flagged, CONDITION, differentiable=1)
    (noise,) = draw_features((NODES, 3, 3))
    matrix = (0.1 * noise + spectrum.diag()).bfloat16().double()
    yield Case("symmetric_eigen", (matrix,), (), CONDITION)


def _norm() -> Iterator[Case]:
    rows, channels, rest = EDGES, 5, (0.1, True)
    x, added, grad = draw_features(*3 * ((rows, channels),))
    weight, bias = draw_features((channels,), (channels,))
    yield Case("relu_batch_norm", (x, added, weight, bias), rest, differentiable=1)
    yield Case("relu_batch_norm_backward", (grad, x, added, weight, bias), rest)


def _products() -> Iterator[Case]:
    channelwise, graph = _channelwise_table(), tuple(example_graph().values())
    for op, table, rows, indices in (
        ("channelwise_product", channelwise, EDGES, ()),
        ("channelwise_conv", channelwise, NODES, graph),
        ("copywise_product", _copywise_table(), EDGES, ()),
        ("fully_connected_product", _mixing_table(), EDGES, ()),
    ):
        layout = (False,) if table is channelwise else ()
        for name, shapes, rest in _forms(op, table, rows, indices, layout):
            terms = max(n * dim for n, dim in shapes) if layout else EDGES * NODES
            others = tuple(_coupled_cases(name))
            yield Case(name, draw_features(*shapes), rest, terms, others=others)
    shapes = [(NODES, channelwise.dim_x), (EDGES, channelwise.dim_y)]
    features = draw_features(*shapes, (EDGES, 3), (3, channelwise.dim_weight))
    tensors = (channelwise.paths, channelwise.entries, channelwise.values)
    arguments = (*graph, *tensors, channelwise.dim_out, False)
    yield Case("radial_conv", features, arguments, EDGES * channelwise.dim_x)
    yield from _splines(channelwise)


def _forms(
    op: str, table: PathTable, rows: int, indices: tuple[Tensor, ...], layout: tuple[bool, ...]
) -> Iterator[tuple[str, list[tuple[int, int]], tuple[Any, ...]]]:
    """Return a product and its gradients of two orders: name, shapes of features, the rest."""
    operands = [(rows, table.dim_x), (EDGES, table.dim_y), (EDGES, table.dim_weight)]
    form = [(rows, table.dim_out), *operands]
    rest = (*indices, table.paths, table.entries, table.values)
    yield op, operands, (*rest, table.dim_out, *layout)
    yield f"{op}_backward", form, (*rest, *layout, True)
    yield f"{op}_double_backward", [*form, *operands], (*rest, *layout, True, True, True, True)


def _coupled_cases(op: str) -> Iterator[Case]:
    """Return convolutions by every table with CUDA kernels of its own, in layouts by turns."""
    for n, model in enumerate(COUPLED.values()):
        cases = convolution_cases(coupled_table(*model, ir_mul=n % 2 == 0))
        yield from (case for case in cases if case.op == op)


def convolution_cases(table: PathTable) -> list[Case]:
    """Return a convolution by a table and its gradients of two orders."""
    graph = tuple(example_graph().values())
    forms = _forms("channelwise_conv", table, NODES, graph, (table.ir_mul,))
    return [
        Case(name, draw_features(*shapes), rest, table.dim_out, orders=0)
        for name, shapes, rest in forms
    ]


def _splines(channelwise: PathTable) -> Iterator[Case]:
    """Return cases with more columns than weights, no multiple of whole registers."""
    functions, rows, columns = 6, 9, channelwise.dim_weight + 3
    basis, coefficients = draw_features((functions + 1, functions), (2, rows, columns))
    first = (5 * torch.arange(EDGES)) % (rows - functions + 1)
    spline, graph = (first, basis, coefficients), tuple(example_graph().values())
    rest = (*spline, *graph, channelwise.paths, channelwise.entries, channelwise.values)
    shapes = [(NODES, channelwise.dim_x), (EDGES, channelwise.dim_y), (EDGES,)]
    grad, *features = draw_features((NODES, channelwise.dim_out), *shapes)
    features[-1] = features[-1].sigmoid().bfloat16().double()
    terms = EDGES * channelwise.dim_x
    yield Case("spline_conv", tuple(features), (*rest, channelwise.dim_out, False), terms)
    yield Case("spline_conv_backward", (grad, *features), (*rest, False, True), terms)


def example_coefficients(d1: int, d2: int, d3: int) -> Tensor:
    """Return arbitrary numbers, some of them zero: products do not depend on their meaning."""
    numbers = (torch.arange(d1 * d2 * d3, dtype=torch.float64) + d1).sin().view(d1, d2, d3)
    return torch.where(numbers.abs() < 0.4, 0.0, numbers)


def _path(x: Segment, y: Segment, out: Segment, weight: int) -> Path:
    return Path(x, y, out, weight, example_coefficients(x.d, y.d, out.d))


def couple(degrees: tuple[int, int, int], orders: tuple[int, int, int]) -> bool:
    """Return whether real harmonics couple: Racah's sum over complex ones is not zero."""
    (l1, l2, l3), (a, b, c) = degrees, map(abs, orders)
    if (sum(m < 0 for m in orders) + sum(degrees)) % 2 or 2 * max(a, b, c) != a + b + c:
        return False
    m2 = b if c == a + b else -b
    return 0 != sum(
        (-1) ** k
        * math.comb(l1 + l2 - l3, k)
        * (math.comb(l1 - l2 + l3, l1 - a - k) if k <= l1 - a else 0)
        * (math.comb(l2 - l1 + l3, l2 + m2 - k) if k <= l2 + m2 else 0)
        for k in range(l1 + l2 - l3 + 1)
    )


def _coupled_coefficients(*degrees: int) -> Tensor:
    """Return arbitrary numbers where real harmonics of three degrees couple."""
    orders = product(*(range(-l, l + 1) for l in degrees))
    coupled = torch.tensor([couple(degrees, m) for m in orders])  # type: ignore[arg-type]
    numbers = (torch.arange(len(coupled)) + 1.0).sin().double()
    return torch.where(coupled, numbers, 0.0).view([2 * l + 1 for l in degrees])


COUPLED: dict[str, tuple[Sequence[tuple[int, int, int]], int, str]] = {
    "mace small": ([(128, 0, 0)], 3, "natural"),
    "mace medium": ([(128, 0, 0), (128, 1, 1)], 3, "natural"),
    "mace large": ([(128, 0, 0), (128, 1, 1), (128, 2, 0)], 3, "natural"),
    "nequip": ([(32, 0, 1), (32, 0, 0), (32, 1, 1), (32, 1, 0)], 1, "both"),
    "nequip 2": ([(32, l, odd) for l in range(3) for odd in (1, 0)], 2, "both"),
    "sevennet": ([(128, 0, 0), (64, 1, 0), (32, 2, 0)], 2, "even"),
    "sevennet-l3i5": ([(128, 0, 0), (64, 1, 0), (32, 2, 0), (32, 3, 0)], 3, "even"),
    "nequix": ([(128, 0, 0), (64, 1, 1), (32, 2, 0), (32, 3, 1)], 3, "natural"),
}
"""Convolutions of models, in the order of known_models.h: channels, degree and parity of features;
degrees of harmonics and of the output; parities of these."""


def coupled_table(
    x: Sequence[tuple[int, int, int]], lmax: int, parities: str, *, ir_mul: bool
) -> PathTable:
    """Return the table of a convolution of a model, but for its values."""
    allowed = {
        "natural": lambda l: (l % 2,), "even": lambda l: (0,), "both": lambda l: (1, 0)
    }[parities]  # fmt: skip
    starts = [*accumulate((mul * (2 * l + 1) for mul, l, _ in x), initial=0)]
    out = weight = 0
    paths: list[Path] = []
    kinds = [(l3, odd) for l3 in range(lmax + 1) for odd in allowed(l3)]
    for (l3, odd), ((mul, l1, odd1), start), l2 in product(
        kinds, zip(x, starts, strict=False), range(lmax + 1)
    ):
        odd2 = 0 if parities == "even" else l2 % 2
        if abs(l1 - l2) <= l3 <= l1 + l2 and (odd1 + odd2 + odd) % 2 == 0:
            first = Segment.block(start, mul, 2 * l1 + 1, ir_mul=ir_mul)
            z = Segment.block(out, mul, 2 * l3 + 1, ir_mul=ir_mul)
            y, coefficients = Segment.block(l2**2, 1, 2 * l2 + 1), _coupled_coefficients(l1, l2, l3)
            paths.append(Path(first, y, z, weight, coefficients))
            out, weight = out + z.mul * z.d, weight + mul
    return PathTable.from_paths(paths, (starts[-1], (lmax + 1) ** 2, weight, out), by_output=True)


def _channelwise_table() -> PathTable:
    """Return a table with more channels than warp lanes, two copies of y, and gaps."""
    many, few = Segment.block(0, 40, 3), Segment.block(120, 7, 1)
    two, one = Segment.block(0, 2, 3), Segment.block(6, 1, 1)
    paths = [
        _path(many, two, Segment.block(0, 40, 5), 0),
        _path(few, two, Segment.block(200, 7, 3), 80),
        _path(many, one, Segment.block(221, 40, 3), 94),
    ]
    return PathTable.from_paths(paths, (128, 8, 135, 342), by_output=True)


def _copywise_table() -> PathTable:
    """Return a table with all pairs of copies, and matched copies."""
    x, y, small = Segment.block(1, 3, 3), Segment.block(0, 2, 5), Segment.block(10, 3, 1)
    paths = [
        _path(x, y, Segment.block(2, 6, 5), 0),
        _path(x, small, Segment.block(32, 3, 7), 6),
        _path(small, y, Segment.block(53, 6, 1), 9),
    ]
    return PathTable.from_paths(paths, (13, 13, 16, 60))


def _mixing_table() -> PathTable:
    """Return a table that couples all copies, with two paths into one segment."""
    scalars, vectors, y = Segment.block(1, 3, 1), Segment.block(4, 2, 3), Segment.block(0, 2, 3)
    out = Segment.block(0, 3, 1)
    paths = [
        _path(scalars, y, Segment.block(9, 2, 3), 0),
        _path(vectors, y, out, 12),
        _path(scalars, Segment.block(6, 1, 1), out, 24),
    ]
    return PathTable.from_paths(paths, (10, 8, 34, 15))


def _orders() -> Iterator[Case]:
    """Return cases with a dropped order, both kinds of terms, and all optional arguments."""
    table = SO2Table(((2, 0, False), (35, 2, False)), ((1, 1, False), (2, 2, True)), 1)
    flags = (*table.flat_terms, table.mmax, table.complex_weights, table.by_order)
    rest = (*example_graph().values(), *flags)
    shapes = ((NODES, table.dim_in), (EDGES, 3), (table.weight_numel,), (table.widths_out[0],))
    inside = ((EDGES, 3), (3, table.scale_numel), (EDGES,))
    grad, *features = draw_features((NODES, table.dim_out), *shapes, *inside)
    terms = EDGES * table.dim_in
    yield Case("so2_conv", tuple(features), rest, terms)
    yield Case("so2_conv_backward", (grad, *features), (*rest, True, True), terms)


def _linear() -> Iterator[Case]:
    # Two segments into one, one into two; gaps in every row.
    into_one = [[1, 3, 0, 19, 1, 0], [4, 17, 0, 19, 1, 57]]
    blocks = torch.tensor([*into_one, [21, 5, 19, 2, 3, 380], [21, 5, 27, 33, 3, 391]])
    factors = torch.tensor([0.5, -1.0, 2.0, 0.25], dtype=torch.float64)
    x, weight, out = (EDGES, 37), (1, 556), (EDGES, 127)
    table = (blocks, factors)
    features = draw_features(x, weight)
    yield Case("block_linear", features, (*table, out[1], False))
    features = draw_features(out, x, weight)
    yield Case("block_linear_backward", features, (*table, False, True, True))


def example_polynomials(
    degrees: Sequence[int], variables: int, components: int, least: float
) -> list[Polynomial]:
    """Return polynomials with arbitrary coefficients, all of at least some size."""
    found = []
    for number, degree in enumerate(degrees):
        for component in range(components - 1):  # nothing leads to the last component
            monomials = list(combinations_with_replacement(range(variables), degree))
            numbers = (torch.arange(len(monomials)).double() + 3 * component + degree).sin()
            pairs = zip(monomials, numbers.tolist(), strict=True)
            kept = {monomial: value for monomial, value in pairs if abs(value) > least}
            found.append(Polynomial(component, number, kept))
    return found


def _polynomials() -> Iterator[Case]:
    rows, sets, channels = 12, 3, 35
    found = example_polynomials((1, 2, 3), variables=4, components=4, least=0.7)
    table = PolynomialTable.from_polynomials(found, (1, 3), (3, 1))
    tensors = (table.products, table.polynomials, table.groups, table.nodes, table.values)
    lists = (list(table.levels), list(table.dims_in), list(table.dims_out))
    index = (5 * torch.arange(rows)) % sets
    order = torch.argsort(index, stable=True)
    by_set = (order, _offsets(index, sets))
    x, grad, weight = (rows, channels * 4), (rows, channels * 4), (sets, 3, channels)
    name = "symmetric_contraction"
    yield Case(name, draw_features(x, weight), (index, *tensors, *lists))
    rest = (*by_set, *tensors, *lists)
    yield Case(f"{name}_backward", draw_features(grad, x, weight), (*rest, False))
    shapes = (grad, x, weight, grad, x, weight)
    yield Case(f"{name}_double_backward", draw_features(*shapes), rest)
