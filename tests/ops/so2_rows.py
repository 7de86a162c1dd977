"""Ops of the op table for convolutions by orders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from equigeo.graphs import EdgeIndex
from equigeo.ops import SO2Table, so2_conv
from equigeo.ops.edges.so2_conv import so2_conv_reference
from equigeo.ops.edges.so2_conv_backward import so2_conv_backward, so2_conv_backward_reference
from tests.ops.op import Op, in_order
from tests.ops.problems import Problem

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
# Orders in every number, and components of all degrees in one pass and in several. The lower degree
# is the last: nothing overwrites what might be written of orders that it lacks.
HIGH = SO2Table(((1, 5, False), (2, 4, True)), ((1, 5, False), (1, 3, True)), 4)


def so2_rows() -> Iterator[Op]:
    """Rows with all that is optional, and with some of it left out."""
    for label, table, given in (
        ("all", COMPLEX, OPTIONAL),
        ("by parity, no radial", REAL, ("bias", "scale", "envelope")),
    ):
        yield forward_row(label, table, given)
        yield backward_row(label, table, given)


def so2_rows_of_kernels() -> Iterator[Op]:
    """Rows of sizes that kernels alone notice."""
    for label, table, given in (
        ("many copies, alone", MANY, ()),
        ("wide", WIDE, ()),
        ("scalars", SCALARS, OPTIONAL),
        ("silent", SILENT, ()),
        ("high degrees", HIGH, OPTIONAL),
    ):
        yield forward_row(label, table, given)
        yield backward_row(label, table, given)
    # Gradients neither of edges nor of weights.
    yield backward_row("of features", COMPLEX, ("bias", "scale", "radial"), asked=False)
    yield backward_row("of features and envelope", COMPLEX, OPTIONAL, asked=False)
    for first, row in enumerate((forward_row, backward_row)):
        found = row("some without direction", COMPLEX, OPTIONAL)
        yield changed(found, {first + 1: every_third_zero})
    # What is not finite is not sent either.
    found = forward_row("without direction", COMPLEX, ("bias",))
    yield changed(found, {1: torch.zeros_like, 3: partial(torch.full_like, fill_value=torch.inf)})


def graph(edges: EdgeIndex) -> list[Tensor]:
    by_source = (edges.target, edges.back_order, edges.back_ptr)
    return [edges.source, edges.ptr, edges.order, *by_source]


def operands(
    table: SO2Table, given: tuple[str, ...], *, grad: bool
) -> Callable[[Problem, torch.dtype], list[Tensor]]:
    def features(p: Problem, dtype: torch.dtype) -> list[Tensor]:
        numbers = NUMBERS if "radial" in given else table.scale_numel
        shapes: dict[str, tuple[int, ...]] = {
            "x": (p.sources, table.dim_in),
            "vectors": (p.edges, 3),
            "weight": (table.weight_numel,),
            "bias": (table.widths_out[0],),
            "scale": (p.edges, numbers),
            "radial": (NUMBERS, table.scale_numel),
            "envelope": (p.edges,),
        }
        names = ("x", "vectors", "weight", *given)
        found = [p.randn(name, *shapes[name], dtype=dtype) for name in names]
        if grad:
            found.insert(0, p.randn("grad", p.targets, table.dim_out, dtype=dtype))
        return found

    return features


def flags(table: SO2Table) -> tuple[Any, ...]:
    return (*table.flat_terms, table.mmax, table.complex_weights, table.by_order)


def left_out(given: tuple[str, ...], first: int) -> tuple[int, ...]:
    """Positions of arguments that are not given."""
    return tuple(first + 3 + k for k, name in enumerate(OPTIONAL) if name not in given)


def filled(arguments: tuple[Tensor, ...], given: tuple[str, ...], first: int) -> list[Any]:
    """All arguments, None for those that are left out."""
    values: list[Any] = list(arguments)
    for position in left_out(given, first):
        values.insert(position, None)
    return values


def changed(row: Op, changes: dict[int, Callable[[Tensor], Tensor]]) -> Op:
    """A row whose arguments at some positions are changed before they are used."""

    def after(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Tensor) -> Any:
            return function(
                *(changes[k](x) if k in changes else x for k, x in enumerate(arguments))
            )

        return call

    return replace(row, call=after(row.call), reference=after(row.reference))


def every_third_zero(vectors: Tensor) -> Tensor:
    alive = torch.arange(vectors.shape[0], device=vectors.device) % 3 > 0
    return vectors * alive.unsqueeze(-1)


def forward_row(label: str, table: SO2Table, given: tuple[str, ...]) -> Op:
    def call(*arguments: Tensor) -> Tensor:
        x, vectors, weight, bias, scale, radial, envelope, *lists = filled(arguments, given, 0)
        return so2_conv(
            x, vectors, weight, tuple(lists), table,
            bias=bias, scale=scale, radial=radial, envelope=envelope,
        )  # fmt: skip

    def judge(*arguments: Tensor) -> Tensor:
        values = filled(arguments, given, 0)
        out: Tensor = in_order(so2_conv_reference)(*values, *flags(table))
        return out

    return Op(
        "so2_conv", call, judge, operands(table, given, grad=False), graph, f"so2_conv, {label}",
        missing=left_out(given, 0), terms=TERMS, constants=flags(table),
        blas=True,  # its second gradients are made of PyTorch's matrix products
    )  # fmt: skip


def backward_row(label: str, table: SO2Table, given: tuple[str, ...], *, asked: bool = True) -> Op:
    constants = (*flags(table), asked, asked)
    kept = [0, 1, 2, *(3 + k for k, name in enumerate(OPTIONAL)
                       if name in given)]  # fmt: skip

    def call(*arguments: Tensor) -> tuple[Tensor, ...]:
        found = so2_conv_backward(*filled(arguments, given, 1), *constants)
        return tuple(found[k] for k in kept)

    def judge(*arguments: Tensor) -> tuple[Tensor, ...]:
        found = in_order(so2_conv_backward_reference)(*filled(arguments, given, 1), *constants)
        return tuple(found[k] for k in kept)

    return Op(
        "so2_conv_backward", call, judge, operands(table, given, grad=True), graph,
        f"so2_conv_backward, {label}", missing=left_out(given, 1), terms=TERMS,
        constants=constants, blas=True,  # its gradients
    )  # fmt: skip
