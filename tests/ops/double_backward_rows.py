"""Ops of the op table for second derivatives of products."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from equigeo.ops import PathTable
from equigeo.ops.products.channelwise_conv_backward import channelwise_conv_backward_reference
from equigeo.ops.products.channelwise_conv_double_backward import channelwise_conv_double_backward
from equigeo.ops.products.channelwise_product_backward import channelwise_product_backward_reference
from equigeo.ops.products.channelwise_product_double_backward import (
    channelwise_product_double_backward,
)
from equigeo.ops.products.multilinear import FEATURES, FORM, OPERANDS
from tests.ops.channelwise_rows import arrays, graph_tensors
from tests.ops.channelwise_tables import (
    TABLES,
    broad_table,
    deep_table,
    full_table,
    gap_table,
    heavy_table,
    long_table,
    sparse_table,
    turns_table,
)
from tests.ops.op import Op, in_order
from tests.ops.problems import Problem


def double_backward_rows() -> Iterator[Op]:
    """Rows of which PyTorch sees a difference: of weights, tangents and results."""
    for name, table in TABLES.items():
        yield product_row(name, table)
    yield conv_row("odd", TABLES["odd"])
    yield product_row("unweighted along y", TABLES["unweighted"], along=["y"])
    yield product_row("odd along x, by y", TABLES["odd"], along=["x"], by=["y"])
    yield conv_row("odd along weight, by x", TABLES["odd"], along=["weight"], by=["x"])


def double_backward_rows_of_kernels() -> Iterator[Op]:
    """Rows of sizes, and of what is computed of them, that kernels alone notice."""
    tables = {"broad": broad_table(), "deep": deep_table(), "sparse": sparse_table()}
    for name, table in tables.items():
        yield product_row(name, table)
        yield conv_row(name, table)
    for name in ("wide", "unweighted"):
        yield conv_row(name, TABLES[name])
    for operand in OPERANDS:
        yield product_row(f"odd along {operand}", TABLES["odd"], along=[operand])
        yield conv_row(f"odd along {operand}", TABLES["odd"], along=[operand])
    for name in FORM:
        yield product_row(f"odd by {name}", TABLES["odd"], by=[name])
        yield conv_row(f"odd by {name}", TABLES["odd"], by=[name])
    yield product_row("sparse by x", sparse_table(), by=["x"])
    yield product_row("long", long_table())
    yield product_row("full", full_table())
    yield product_row("gap", gap_table())
    yield product_row("heavy", heavy_table())
    yield conv_row("heavy", heavy_table())
    yield conv_row("by turns", turns_table())


def product_row(
    name: str, table: PathTable, along: Sequence[str] = OPERANDS, by: Sequence[str] = FORM
) -> Op:
    rows = dict.fromkeys(FORM, lambda p: p.edges)
    return double_backward_row(
        channelwise_product_double_backward,
        in_order(channelwise_product_backward_reference),
        f"channelwise_product_double_backward, {name}",
        Pieces(table, along, by, rows),
        lambda graph: arrays(table),
        (table.ir_mul,),
    )


def conv_row(
    name: str, table: PathTable, along: Sequence[str] = OPERANDS, by: Sequence[str] = FORM
) -> Op:
    rows: dict[str, Callable[[Problem], int]] = dict.fromkeys(FORM, lambda p: p.edges)
    rows |= {"grad": lambda p: p.targets, "x": lambda p: p.sources}
    return double_backward_row(
        channelwise_conv_double_backward,
        in_order(channelwise_conv_backward_reference),
        f"channelwise_conv_double_backward, {name}",
        Pieces(table, along, by, rows),
        lambda graph: [*graph_tensors(graph), *arrays(table)],
        (table.ir_mul,),
    )


class Pieces:
    """Which features there are, and which results are asked for."""

    def __init__(
        self,
        table: PathTable,
        along: Sequence[str],
        by: Sequence[str],
        rows: dict[str, Callable[[Problem], int]],
    ) -> None:
        self.rows = rows
        self.dims = dict(
            zip(FORM, (table.dim_out, table.dim_x, table.dim_y, table.dim_weight), strict=True)
        )
        absent = {f"{operand}_tangent" for operand in OPERANDS if operand not in along}
        if not table.dim_weight:
            absent |= {"weight", "weight_tangent"}
        self.given = [name for name in FEATURES if name not in absent]
        self.missing = tuple(k for k, name in enumerate(FEATURES) if name in absent)
        self.wanted = [name in by for name in FORM]
        self.kept = [k for k, name in enumerate(FORM) if name in by and name not in absent]

    def features(self, problem: Problem, dtype: torch.dtype) -> list[Tensor]:
        of = {name: name.removesuffix("_tangent") for name in self.given}
        shapes = {name: (self.rows[of[name]](problem), self.dims[of[name]]) for name in self.given}
        return [problem.randn(name, *shape, dtype=dtype) for name, shape in shapes.items()]

    def fill(self, arguments: tuple[Any, ...]) -> list[Any]:
        """All features, None where there is none, and the rest."""
        filled = list(arguments)
        for position in self.missing:
            filled.insert(position, None)
        return filled

    def keep(self, results: Sequence[Tensor]) -> Any:
        """Results that are asked for; the others are empty."""
        for k, result in enumerate(results):
            assert k in self.kept or result.numel() == 0
        found = tuple(results[k] for k in self.kept)
        return found if len(found) > 1 else found[0]


def double_backward_row(
    op: Callable[..., Any],
    gradients: Callable[..., Any],
    label: str,
    pieces: Pieces,
    rest: Callable[..., list[Tensor]],
    layout: tuple[bool, ...] = (),
) -> Op:
    """An op beside gradients that PyTorch differentiates; both end their tables with a layout."""
    constants = (*layout, *pieces.wanted)

    def call(*arguments: Tensor) -> Any:
        return pieces.keep(op(*pieces.fill(arguments), *constants))

    def judge(*arguments: Tensor) -> Any:
        return pieces.keep(differentiated(gradients, pieces, [*pieces.fill(arguments), *layout]))

    name = label.partition(",")[0]
    return Op(
        name, call, judge, pieces.features, rest, label, missing=pieces.missing, constants=constants
    )


def differentiated(
    gradients: Callable[..., Any], pieces: Pieces, arguments: list[Any]
) -> list[Tensor]:
    """Gradients along tangents, differentiated by PyTorch."""
    point = arguments[: len(FORM)]
    tangents, rest = arguments[len(FORM) : len(FEATURES)], arguments[len(FEATURES) :]
    with torch.enable_grad():
        point = [x if x is None or x.requires_grad else x.detach().requires_grad_() for x in point]
        found = gradients(*point, *rest)
        pairs = [(f, t) for f, t in zip(found, tangents, strict=True) if t is not None]
        wanted = [point[k] for k in pieces.kept]
        slopes = torch.autograd.grad(
            [f for f, _ in pairs], wanted, [t for _, t in pairs],
            create_graph=True, materialize_grads=True,
        )  # fmt: skip
    results = [x.new_empty(0, 0) for x in (arguments[0],) * len(FORM)]
    for k, slope in zip(pieces.kept, slopes, strict=True):
        results[k] = slope
    return results
