"""Ops of the op table for products whose channels meet in pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from equigeo.ops import (
    Path,
    PathTable,
    Segment,
    copywise_product,
    fully_connected_product,
)
from equigeo.ops.products.copywise_product import copywise_product_reference
from equigeo.ops.products.copywise_product_backward import (
    copywise_product_backward,
    copywise_product_backward_reference,
)
from equigeo.ops.products.fully_connected_product import fully_connected_product_reference
from equigeo.ops.products.fully_connected_product_backward import (
    fully_connected_product_backward,
    fully_connected_product_backward_reference,
)
from tests.ops.channelwise_rows import arrays, options, with_weight
from tests.ops.channelwise_tables import coefficients
from tests.ops.op import Op, in_order
from tests.ops.problems import Problem


def path_between(x: Segment, y: Segment, out: Segment, weight: int | None) -> Path:
    return Path(x, y, out, weight, coefficients(x.d, y.d, out.d))


def pairs_table() -> PathTable:
    """All pairs of copies and matched ones, some into one segment, a gap in every row."""
    x, y = Segment.block(1, 3, 3), Segment.block(0, 2, 5)
    small = Segment.block(10, 3, 1)
    out = Segment.block(2, 6, 5)
    matched = Segment.block(32, 3, 7)
    paths = [
        path_between(x, y, out, 0),
        path_between(x, small, matched, 6),
        path_between(small, y, out, 9),
        path_between(x, y, Segment.block(53, 6, 1), 15),
        path_between(Segment.block(0, 1, 1), y, Segment.block(60, 2, 5), 22),
    ]
    return PathTable.from_paths(paths, (13, 13, 25, 71))


def natural_table(lmax: int) -> PathTable:
    """One copy of each degree, every number of the output reached once."""
    paths, place = [], 0
    for l1 in range(lmax + 1):
        for l2 in range(lmax + 1):
            for l3 in range(abs(l1 - l2), l1 + l2 + 1):
                inputs = (Segment.block(l * l, 1, 2 * l + 1) for l in (l1, l2))
                paths.append(path_between(*inputs, Segment.block(place, 1, 2 * l3 + 1), None))
                place += 2 * l3 + 1
    return PathTable.from_paths(paths, ((lmax + 1) ** 2, (lmax + 1) ** 2, 0, place))


def strided_table() -> PathTable:
    """Components outside, and outputs of two paths that interleave."""
    x, y = Segment.block(0, 3, 3, ir_mul=True), Segment.block(1, 2, 3, ir_mul=True)
    first, second = Segment(0, 6, 5, 1, 9), Segment(6, 3, 5, 1, 9)
    paths = [
        path_between(x, y, first, 0),
        path_between(x, Segment.block(0, 1, 1), second, 6),
        path_between(x, x, Segment.block(45, 3, 1), 9),
    ]
    return PathTable.from_paths(paths, (9, 9, 12, 48))


def mixed_table(*, ir_mul: bool) -> PathTable:
    """Copies of the second input, a shared output, a gap in every row."""

    def block(offset: int, mul: int, d: int) -> Segment:
        return Segment.block(offset, mul, d, ir_mul=ir_mul)

    scalars, vectors, y = block(1, 3, 1), block(4, 2, 3), block(0, 2, 3)
    out, tensors = block(0, 3, 1), block(4, 1, 5)
    paths = [
        path_between(scalars, y, block(9, 2, 3), 0),
        path_between(vectors, y, out, 12),
        path_between(scalars, block(6, 1, 1), out, 24),
        path_between(vectors, block(7, 1, 5), tensors, 33),
        path_between(vectors, y, tensors, 36),
    ]
    return PathTable.from_paths(paths, (10, 12, 41, 15))


def overlapping_table() -> PathTable:
    """Some copies, and some weights, of one path are those of another one."""
    y = Segment.block(0, 2, 3)
    paths = [
        path_between(Segment.block(0, 3, 3), y, Segment.block(0, 6, 5), 0),
        path_between(Segment.block(3, 1, 3), y, Segment.block(10, 2, 5), 2),
    ]
    return PathTable.from_paths(paths, (9, 6, 6, 30))


def pairing_table() -> PathTable:
    """More pairs of copies than a warp couples at once."""
    x, y, out = Segment.block(0, 11, 3), Segment.block(0, 3, 3), Segment.block(0, 2, 5)
    return PathTable.from_paths([path_between(x, y, out, 0)], (33, 9, 66, 10))


COPYWISE = {
    "pairs": pairs_table(),
    "natural": natural_table(2),
    "strided": strided_table(),
    "overlapping": overlapping_table(),
}
MIXED = {
    "mul_ir": mixed_table(ir_mul=False),
    "ir_mul": mixed_table(ir_mul=True),
    "many pairs": pairing_table(),
}


def connected_rows() -> Iterator[Op]:
    for name, table in COPYWISE.items():
        functions = (copywise_product, copywise_product_reference)
        yield product_row("copywise_product", name, table, functions)
        backward = (copywise_product_backward, copywise_product_backward_reference)
        yield backward_row("copywise_product_backward", name, table, backward)
    for name, table in MIXED.items():
        functions = (fully_connected_product, fully_connected_product_reference)
        yield product_row("fully_connected_product", name, table, functions)
        backward = (fully_connected_product_backward, fully_connected_product_backward_reference)
        yield backward_row("fully_connected_product_backward", name, table, backward)


def operands(table: PathTable, *, grad: bool) -> Callable[[Problem, torch.dtype], list[Tensor]]:
    def features(problem: Problem, dtype: torch.dtype) -> list[Tensor]:
        dims = {"x": table.dim_x, "y": table.dim_y}
        if grad:
            dims = {"grad": table.dim_out, **dims}
        if table.dim_weight:
            dims["weight"] = table.dim_weight
        rows = problem.edges
        return [problem.randn(name, rows, dim, dtype=dtype) for name, dim in dims.items()]

    return features


def product_row(
    op: str, name: str, table: PathTable, functions: tuple[Callable[..., Any], ...]
) -> Op:
    public, reference = functions
    dims = (table.dim_x, table.dim_y, table.dim_weight, table.dim_out)

    def call(x: Tensor, y: Tensor, *rest: Tensor) -> Tensor:
        weight, rest = (rest[0], rest[1:]) if table.dim_weight else (None, rest)
        return public(x, y, weight, PathTable(*rest, *dims))

    constants = (table.dim_out,)
    return Op(
        op,
        call,
        with_weight(in_order(reference), 2, table, constants),
        operands(table, grad=False),
        lambda graph: arrays(table),
        f"{op}, {name}",
        **options(table, 2, constants),
    )


def backward_row(
    op: str, name: str, table: PathTable, functions: tuple[Callable[..., Any], ...]
) -> Op:
    public, reference = functions
    return Op(
        op,
        with_weight(public, 3, table, ()),
        with_weight(in_order(reference), 3, table, ()),
        operands(table, grad=True),
        lambda graph: arrays(table),
        f"{op}, {name}",
        **options(table, 3, ()),
    )
