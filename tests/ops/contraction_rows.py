"""Ops of the op table for symmetric contractions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from equigeo.graphs import EdgeIndex
from equigeo.ops import Polynomial, PolynomialTable, symmetric_contraction
from equigeo.ops.polynomials.symmetric_contraction import symmetric_contraction_reference
from equigeo.ops.polynomials.symmetric_contraction_backward import (
    symmetric_contraction_backward,
    symmetric_contraction_backward_reference,
)
from equigeo.ops.polynomials.symmetric_contraction_double_backward import (
    symmetric_contraction_double_backward,
    symmetric_contraction_double_backward_reference,
)
from tests.ops.op import Op, in_order
from tests.ops.problems import Problem

WEIGHTS = 4


def polynomials(degrees: Sequence[int], variables: int, components: int) -> list[Polynomial]:
    """Any numbers will do, some of them zero: the op does not know what they stand for."""
    found = []
    for weight, degree in enumerate(degrees):
        for m in range(components - 1):  # nothing leads to the last component
            names = list(itertools.combinations_with_replacement(range(variables), degree))
            numbers = (torch.arange(len(names), dtype=torch.float64) + 3 * m + degree).sin()
            kept = {s: v for s, v in zip(names, numbers.tolist(), strict=True) if abs(v) > 0.95}
            found.append(Polynomial(m, weight, kept))
    return found


def table(degrees: Sequence[int], dims_in: tuple[int, ...], dims_out: tuple[int, ...]):
    found = polynomials(degrees, sum(dims_in), sum(dims_out))
    return PolynomialTable.from_polynomials(found, dims_in, dims_out)


TABLES = {
    "components inside": table([1, 2, 4], (1, 3), (3, 1)),
    "components outside": table([3, 1], (1, 1, 1), (1, 1)),
    "one block": table([2, 1], (9,), (4,)),
    "high degree": table([5, 7], (2,), (2,)),
}


def contraction_rows() -> Iterator[Op]:
    for name, polynomials in TABLES.items():
        yield contraction_row(name, polynomials)
        yield backward_row(name, polynomials, only_x=False)
    for name in ("components inside", "components outside"):
        yield backward_row(name, TABLES[name], only_x=True)
        yield double_backward_row(name, TABLES[name])
    # Sets that begin inside the run of another one.
    yield backward_row("one block", TABLES["one block"], only_x=False, repeats=3)


def arrays(t: PolynomialTable) -> list[Tensor]:
    return [t.products, t.polynomials, t.groups, t.nodes, t.values]


def lists(t: PolynomialTable) -> tuple[list[int], ...]:
    return list(t.levels), list(t.dims_in), list(t.dims_out)


def by_set(graph: EdgeIndex, repeats: int = 1) -> list[Tensor]:
    """Rows of every set, where row e takes the set of the target of edge e, and again so."""
    again = torch.arange(repeats) * graph.num_edges
    return [(graph.order[:, None] + again).flatten(), graph.ptr * repeats]


def operands(
    t: PolynomialTable, *kinds: str, repeats: int = 1
) -> Callable[[Problem, torch.dtype], list[Tensor]]:
    def features(problem: Problem, dtype: torch.dtype) -> list[Tensor]:
        rows, sets, channels = problem.edges * repeats, problem.targets, problem.channels
        # References hold every term of every row and channel: many rows are kept narrow.
        channels = channels if rows < 1000 else 2
        shapes = {
            "grad": (rows, channels * sum(t.dims_out)),
            "x": (rows, channels * sum(t.dims_in)),
            "weight": (sets, WEIGHTS, channels),
        }
        return [
            problem.randn(f"{kind} {place}", *shapes[kind], dtype=dtype)
            for place, kind in enumerate(kinds)
        ]

    return features


def with_constants(function: Callable[..., Any], constants: tuple[Any, ...]) -> Callable[..., Any]:
    return lambda *tensors: function(*tensors, *constants)


def contraction_row(name: str, t: PolynomialTable) -> Op:
    def call(x: Tensor, weight: Tensor, index: Tensor, *tensors: Tensor) -> Tensor:
        return symmetric_contraction(x, weight, index, PolynomialTable(*tensors, *lists(t)))

    return Op(
        "symmetric_contraction",
        call,
        with_constants(in_order(symmetric_contraction_reference), lists(t)),
        operands(t, "x", "weight"),
        lambda graph: [graph.edge_index[1], *arrays(t)],
        f"symmetric_contraction, {name}",
        constants=lists(t),
    )


def backward_row(name: str, t: PolynomialTable, *, only_x: bool, repeats: int = 1) -> Op:
    constants = (*lists(t), only_x)
    return Op(
        "symmetric_contraction_backward",
        with_constants(symmetric_contraction_backward, constants),
        with_constants(in_order(symmetric_contraction_backward_reference), constants),
        operands(t, "grad", "x", "weight", repeats=repeats),
        lambda graph: [*by_set(graph, repeats), *arrays(t)],
        f"symmetric_contraction_backward, {name}"
        + ", of x alone" * only_x
        + ", many rows" * (repeats > 1),
        constants=constants,
    )


def double_backward_row(name: str, t: PolynomialTable) -> Op:
    return Op(
        "symmetric_contraction_double_backward",
        with_constants(symmetric_contraction_double_backward, lists(t)),
        with_constants(in_order(symmetric_contraction_double_backward_reference), lists(t)),
        operands(t, "grad", "x", "weight", "grad", "x", "weight"),
        lambda graph: [*by_set(graph), *arrays(t)],
        f"symmetric_contraction_double_backward, {name}",
        constants=lists(t),
    )
