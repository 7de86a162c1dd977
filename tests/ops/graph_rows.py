"""Op-table rows of sums and attention over edges, convolutions by orders, and batch norms."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from equigeo.graphs import EdgeIndex
from equigeo.ops import SO2Table, so2_conv
from tests.ops.op import Op, of_kernels, op_row
from tests.ops.problems import Problem
from tests.ops.product_rows import graph_tensors

WIDTHS = {"one channel, one head": 1, "odd sizes": 19, "full registers": 64, "no channels": 0}
"""Channels out of a head, by problem; of the others, 16, which are written where they belong."""
NODES = 3000
"""Rows that a gradient of a matrix sums over, at most: those of the largest problem."""


def graph_rows() -> Iterator[Op]:
    yield op_row(
        "gather_sum", "", lambda p: {"x": (p.sources, p.channels)},
        lambda g: [g.source, g.ptr, g.back_target, g.back_ptr],
    )  # fmt: skip
    yield op_row("segment_attention", "", attention_shapes("values", "logits"), attention_graph())
    back = "segment_attention_backward"
    names = ("grad_out", "grad_attention", "values", "attention")
    some = {"changes": {"attention": torch.sigmoid}}
    yield op_row(back, "", attention_shapes(*names), attention_graph(), **some)
    yield op_row(
        back, f"{back} of the averages alone", attention_shapes("grad_out", *names[2:]),
        attention_graph(), without=["grad_attention"], **some,
    )  # fmt: skip
    yield from attention_conv_rows()
    yield from so2_rows()
    yield from of_kernels(so2_rows_of_kernels())
    yield from of_kernels(so2_rows_of_one_problem())
    yield from norm_rows()


def nodes(sources: int, targets: int, square: bool) -> tuple[int, int]:
    return (max(sources, targets),) * 2 if square else (sources, targets)


def attention_graph(square: bool = False) -> Callable[[EdgeIndex], list[Tensor]]:
    def lists(edges: EdgeIndex) -> list[Tensor]:
        ends = nodes(edges.num_sources, edges.num_targets, square)
        edges = EdgeIndex.from_edges(edges.edge_index, *ends)
        return [edges.source, edges.ptr, edges.target, edges.back_order, edges.back_ptr]

    return lists


def attention_shapes(*names: str) -> Callable[[Problem], dict[str, tuple[int, ...]]]:
    """Shapes of features of attention, without matrices."""

    def shapes(p: Problem) -> dict[str, tuple[int, ...]]:
        found = dict.fromkeys(("logits", "attention", "grad_attention"), (p.edges, p.heads))
        found["values"] = p.sources, p.heads, p.channels
        found["grad_out"] = p.targets, p.heads, p.channels
        return {name: found[name] for name in names}

    return shapes


def attention_conv_rows() -> Iterator[Op]:
    """Rows with and without matrices for the targets themselves."""

    def shapes(names: tuple[str, ...], square: bool, p: Problem) -> dict[str, tuple[int, ...]]:
        sources, targets = nodes(p.sources, p.targets, square)
        width = p.heads * WIDTHS.get(p.name, 16)
        found = dict.fromkeys(("logits", "attention", "grad_attention"), (p.edges, p.heads))
        found |= dict.fromkeys(("weight", "self_weight"), (width, p.channels))
        found |= {"grad_out": (targets, width), "x": (sources, p.channels)}
        return {name: found[name] for name in names}

    def scaled(weight: Tensor) -> Tensor:
        return weight * max(1, weight.shape[1]) ** -0.5

    matrices = {"weight": scaled, "self_weight": scaled}
    forward = ("x", "logits", "weight", "self_weight")
    backward = ("grad_out", "grad_attention", "x", "attention", "weight", "self_weight")
    # Second gradients are those of the reference, made of matrix products.
    for op, label, names, without, terms in (
        ("attention_conv", "", forward, "", 256),
        ("attention_conv", " of sources alone", forward, "self_weight", 256),
        ("attention_conv_backward", "", backward, "", NODES),
        ("attention_conv_backward", " of the results alone", backward, "grad_attention", NODES),
        ("attention_conv_backward", " of sources alone", backward, "self_weight", NODES),
    ):
        square, given = without != "self_weight", tuple(n for n in names if n != without)
        missing = square or names is forward  # a gradient of what is missing
        yield op_row(
            op, op + label, partial(shapes, given, square), attention_graph(square),
            without=[without] if without else [], results=() if missing else (0, 1, 2),
            changes={**matrices, "attention": torch.sigmoid}, blas=True, terms=terms,
        )  # fmt: skip


EPS = 0.1  # a channel of one positive number has little variance


def norm_rows() -> Iterator[Op]:
    """Rows with and without a second summand, rectified at the end or not."""
    for name, names in (
        ("relu_batch_norm", ("x", "added", "weight", "bias")),
        ("relu_batch_norm_backward", ("grad_out", "x", "added", "weight", "bias")),
    ):
        for rectify in (True, False):  # a sum in one, rows alone in the other
            given = [n for n in names if rectify or n != "added"]

            def shapes(p: Problem, given: list[str] = given) -> dict[str, tuple[int, ...]]:
                rows = {True: (p.channels,), False: (p.sources, p.channels)}
                return {n: rows[n in ("weight", "bias")] for n in given}

            label = f"{name}, {'of a sum, rectified' if rectify else 'of rows'}"
            # Statistics have no gradients, and a test of their own.
            results = (0, 1, 2) if "grad_out" in names else (0,)
            yield op_row(
                name, label, shapes, lambda _: [], EPS, rectify, results=results, terms=3000,
                without=[] if rectify else ["added"],
            )  # fmt: skip


NUMBERS = 3
OPTIONAL = ("bias", "scale", "radial", "envelope")
TERMS = 20_000
"""Bound on the length of a sum: edges of the largest problem, times copies and components."""

# Degrees beyond the largest order, terms of both kinds, an order that one side lacks.
COMPLEX = SO2Table(
    ((2, 0, False), (1, 2, False), (2, 1, True)), ((1, 1, False), (2, 2, True), (1, 0, False)), 1
)
REAL = SO2Table(
    ((1, 1, False), (2, 1, True), (0, 2, False)), ((2, 2, False), (1, 0, True)), 1, False, False
)
# More copies than registers have lanes, and all orders.
MANY = SO2Table(((35, 1, False), (17, 0, False)), ((19, 1, False), (33, 2, False)), 1)
# More copies than a tile of matrix products has rows, and columns.
WIDE = SO2Table(((66, 0, False),), ((130, 0, False),), 0)
# No directions, and more terms than arguments of a kernel hold.
SCALARS = SO2Table(((1, 0, False),) * 25, ((2, 0, False),), 0)
# Nothing comes out.
SILENT = SO2Table(((2, 1, False),), (), 0)
ONE = SO2Table(((1, 1, False),), ((1, 1, False),), 1)
# Orders in every number, and components of all degrees in one pass and in several. The lower degree
# is the last: nothing overwrites what might be written of orders that it lacks.
HIGH = SO2Table(((1, 5, False), (2, 4, True)), ((1, 5, False), (1, 3, True)), 4)


def so2_rows() -> Iterator[Op]:
    """Rows with all that is optional, and with some of it left out."""
    for backward in (False, True):
        yield so2_row("all", COMPLEX, backward=backward)
        some = ("bias", "scale", "envelope")
        yield so2_row("by parity, no radial", REAL, some, backward=backward)


def so2_rows_of_kernels() -> Iterator[Op]:
    """Rows of sizes that kernels alone notice."""
    for backward in (False, True):
        for label, table, given in (
            ("many copies, alone", MANY, ()),
            ("wide", WIDE, ()),
            ("scalars", SCALARS, OPTIONAL),
            ("silent", SILENT, ()),
            ("high degrees", HIGH, OPTIONAL),
        ):
            yield so2_row(label, table, given, backward=backward)
        found = so2_row("some without direction", COMPLEX, backward=backward)
        yield changed(found, {1 + backward: every_third_zero})
    # Gradients neither of edges nor of weights.
    some = ("bias", "scale", "radial")
    yield so2_row("of features", COMPLEX, some, backward=True, asked=(False, False))
    yield so2_row("of features and envelope", COMPLEX, backward=True, asked=(False, False))
    # What is not finite is not sent either.
    found = so2_row("without direction", COMPLEX, ("bias",))
    yield changed(found, {1: torch.zeros_like, 3: partial(torch.full_like, fill_value=torch.inf)})


FEW_EDGES = Problem("few edges", 4, 5, 11, isolated=1)


def every_degree(lmax: int, mmax: int, **options: bool) -> SO2Table:
    """All degrees on both sides, in other orders and of other copies, both kinds of terms."""
    rising = tuple((1 + l % 2, l, l % 3 == 1) for l in range(lmax + 1))
    falling = tuple((1 + l // 2 % 3, l, l % 2 == 1) for l in range(lmax, -1, -1))
    return SO2Table(rising, falling, mmax, **options)


def so2_rows_of_one_problem() -> Iterator[Op]:
    """Rows of high degrees and odd sizes, with an edge without length and edges along the poles."""
    for label, table, options in (
        ("degree 3, all orders", every_degree(3, 3), {}),
        ("degree 5, order 2, real", every_degree(5, 2, complex_weights=False), {}),
        ("degree 6, order 0", every_degree(6, 0), {"given": ("bias", "envelope")}),
        ("degree 10, all orders", every_degree(10, 10, by_order=False), {}),
        ("degree 10, order 3", every_degree(10, 3), {"given": ("scale",)}),
        (
            "one term of degree 10", SO2Table(((3, 10, True),), ((1, 10, False),), 10, False),
            {"given": ("bias",)},
        ),
        (
            "more terms than one launch takes",
            SO2Table(tuple((1, n % 3, n % 2 == 0) for n in range(25)), ((2, 1, False),), 1), {},
        ),
        (
            "more copies than a tile",
            SO2Table(((67, 1, False), (1, 2, True)), ((37, 2, True), (33, 0, False)), 1), {},
        ),
        ("scalars alone", SO2Table(((5, 0, False),), ((3, 0, True),), 0), {}),
        ("nothing comes in", SO2Table(((0, 1, False),), ((2, 1, False), (1, 0, False)), 0), {}),
        ("nothing goes out", SO2Table(((2, 1, False),), ((0, 2, False),), 0), {}),
        ("no numbers to map", COMPLEX, {"numbers": 0}),
        ("a hub of sources", COMPLEX, {"edges": 40, "sources": 1, "isolated": 0}),
        (
            "a hub of targets", REAL,
            {"given": ("bias", "scale"), "edges": 40, "targets": 1, "isolated": 0},
        ),
        ("one edge without length", COMPLEX, {"edges": 1, "sources": 1, "targets": 1}),
        ("no edges", COMPLEX, {"edges": 0}),
        ("no sources", COMPLEX, {"edges": 0, "sources": 0}),
        ("no targets", COMPLEX, {"edges": 0, "targets": 0}),
        ("gradients of features alone", COMPLEX, {"asked": (False, False)}),
        ("gradients but of weights", COMPLEX, {"asked": (True, False)}),
        ("gradients but of edges", COMPLEX, {"asked": (False, True)}),
        ("sums of weights by parts", ONE, {"edges": 600, "sources": 40, "targets": 30}),
        # Of more numbers than are in memory at once, on a card.
        (
            "several chunks", SO2Table(((1, 0, False),), ((33_000, 0, False),), 0),
            {"given": ("bias",), "name": "chunks", "edges": 70, "sources": 3, "targets": 3},
        ),
    ):  # fmt: skip
        sizes = {key: options.pop(key) for key in vars(FEW_EDGES) if key in options}
        problem = replace(FEW_EDGES, **sizes)
        terms = max(1, problem.edges) * (table.dim_in + table.dim_out)
        for backward in (False, True):
            row = so2_row(label, table, backward=backward, problem=problem, **options)
            yield replace(changed(row, {1 + backward: along_poles}), terms=terms)


def along_poles(vectors: Tensor) -> Tensor:
    """Vectors of which the first have no length, both directions of y, and almost one of them."""
    special = [[0, 0, 0], [0, 2, 0], [0, -0.5, 0], [1e-9, -1, 0]][: len(vectors)]
    return torch.cat([vectors.new_tensor(special).view(-1, 3), vectors[len(special) :]])


def flags(table: SO2Table) -> tuple[Any, ...]:
    return (*table.flat_terms, table.mmax, table.complex_weights, table.by_order)


def changed(row: Op, changes: dict[int, Callable[[Tensor], Tensor]]) -> Op:
    """A row whose arguments at some positions are changed before they are used."""

    def after(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given: function(
            *(changes[k](x) if k in changes else x for k, x in enumerate(given))
        )

    return replace(row, call=after(row.call), reference=after(row.reference))


def every_third_zero(vectors: Tensor) -> Tensor:
    alive = torch.arange(vectors.shape[0], device=vectors.device) % 3 > 0
    return vectors * alive.unsqueeze(-1)


def so2_row(
    label: str,
    table: SO2Table,
    given: tuple[str, ...] = OPTIONAL,
    *,
    backward: bool = False,
    asked: tuple[bool, bool] = (True, True),
    numbers: int = NUMBERS,
    **options: Any,
) -> Op:
    def shapes(p: Problem) -> dict[str, tuple[int, ...]]:
        found: dict[str, tuple[int, ...]] = {
            "grad": (p.targets, table.dim_out),
            "x": (p.sources, table.dim_in),
            "vectors": (p.edges, 3),
            "weight": (table.weight_numel,),
            "bias": (table.widths_out[0],),
            "scale": (p.edges, numbers if "radial" in given else table.scale_numel),
            "radial": (numbers, table.scale_numel),
            "envelope": (p.edges,),
        }
        return {name: found[name] for name in names}

    def call(x: Tensor, vectors: Tensor, weight: Tensor, *others: Any) -> Tensor:
        optional = dict(zip(OPTIONAL, others[:4], strict=True))
        return so2_conv(x, vectors, weight, tuple(others[4:10]), table, **optional)

    names = (*["grad"] * backward, "x", "vectors", "weight", *given)
    name = "so2_conv_backward" if backward else "so2_conv"
    return op_row(
        name, f"{name}, {label}", shapes, graph_tensors, *flags(table), *asked[: 2 * backward],
        call=None if backward else call, without=[n for n in OPTIONAL if n not in given],
        results=[k for k, n in enumerate(("x", "vectors", "weight", *OPTIONAL)) if n in names]
        if backward else (),
        terms=TERMS, blas=True,  # gradients are made of PyTorch's matrix products
        **options,
    )  # fmt: skip
