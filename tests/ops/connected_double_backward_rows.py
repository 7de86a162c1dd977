"""Ops of the op table for second derivatives of products whose channels meet in pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from equigeo.ops import Path, PathTable, Segment
from equigeo.ops.products.copywise_product_backward import copywise_product_backward_reference
from equigeo.ops.products.copywise_product_double_backward import copywise_product_double_backward
from equigeo.ops.products.fully_connected_product_backward import (
    fully_connected_product_backward_reference,
)
from equigeo.ops.products.fully_connected_product_double_backward import (
    fully_connected_product_double_backward,
)
from equigeo.ops.products.multilinear import FORM, OPERANDS
from tests.ops.channelwise_rows import arrays
from tests.ops.connected_rows import COPYWISE, MIXED, path_between
from tests.ops.double_backward_rows import Pieces, double_backward_row
from tests.ops.op import Op, in_order


def broad_table(*, ir_mul: bool) -> PathTable:
    """More channels than registers hold, of every number of components; nothing has gaps."""
    paths: list[Path] = []
    place, weights = {"x": 0, "out": 0}, 0

    def block(of: str, mul: int, d: int) -> Segment:
        place[of] += mul * d
        return Segment.block(place[of] - mul * d, mul, d, ir_mul=ir_mul)

    y = Segment.block(0, 2, 3, ir_mul=ir_mul)
    for d in (1, 3, 5, 7, 9, 11, 13):
        x, out = block("x", 17 if d == 1 else 2, 14 - d), block("out", 67 if d < 7 else 33, d)
        paths.append(path_between(x, y, out, weights))
        weights += x.mul * y.mul * out.mul
    return PathTable.from_paths(paths, (place["x"], 6, weights, place["out"]))


def connected_double_backward_rows() -> Iterator[Op]:
    """Rows of which PyTorch sees a difference: of weights, tangents and results."""
    for name in ("pairs", "natural", "strided"):
        yield copywise_row(name, COPYWISE[name])
    yield copywise_row("pairs along weight, by x", COPYWISE["pairs"], along=["weight"], by=["x"])
    yield copywise_row("natural along y", COPYWISE["natural"], along=["y"])
    yield mixed_row("mul_ir", MIXED["mul_ir"])
    yield mixed_row("ir_mul", MIXED["ir_mul"])
    yield mixed_row("mul_ir along x, by y", MIXED["mul_ir"], along=["x"], by=["y"])


def connected_double_backward_rows_of_kernels() -> Iterator[Op]:
    """Rows of sizes, and of what is computed of them, that kernels alone notice."""
    yield copywise_row("overlapping", COPYWISE["overlapping"])
    yield mixed_row("many pairs", MIXED["many pairs"])
    for layout in ("mul_ir", "ir_mul"):
        yield mixed_row(f"broad, {layout}", broad_table(ir_mul=layout == "ir_mul"))
    for operand in OPERANDS:
        yield copywise_row(f"pairs along {operand}", COPYWISE["pairs"], along=[operand])
        yield mixed_row(f"mul_ir along {operand}", MIXED["mul_ir"], along=[operand])
    for name in FORM:
        yield copywise_row(f"pairs by {name}", COPYWISE["pairs"], by=[name])
        yield mixed_row(f"mul_ir by {name}", MIXED["mul_ir"], by=[name])


def copywise_row(
    name: str, table: PathTable, along: Sequence[str] = OPERANDS, by: Sequence[str] = FORM
) -> Op:
    functions = (copywise_product_double_backward, copywise_product_backward_reference)
    return connected_row("copywise_product", name, table, functions, along, by)


def mixed_row(
    name: str, table: PathTable, along: Sequence[str] = OPERANDS, by: Sequence[str] = FORM
) -> Op:
    functions = (
        fully_connected_product_double_backward,
        fully_connected_product_backward_reference,
    )
    return connected_row("fully_connected_product", name, table, functions, along, by)


def connected_row(
    op: str,
    name: str,
    table: PathTable,
    functions: tuple[Callable[..., Any], Callable[..., Any]],
    along: Sequence[str],
    by: Sequence[str],
) -> Op:
    double_backward, gradients = functions
    return double_backward_row(
        double_backward,
        in_order(gradients),
        f"{op}_double_backward, {name}",
        Pieces(table, along, by, dict.fromkeys(FORM, lambda p: p.edges)),
        lambda graph: arrays(table),
    )
