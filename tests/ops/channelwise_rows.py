"""Ops of the op table for products and convolutions that keep channels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from equigeo.graphs import EdgeIndex
from equigeo.ops import (
    Path,
    PathTable,
    Segment,
    channelwise_conv,
    channelwise_product,
    radial_conv,
)
from equigeo.ops.products.channelwise_conv import channelwise_conv_reference
from equigeo.ops.products.channelwise_conv_backward import (
    channelwise_conv_backward,
    channelwise_conv_backward_reference,
)
from equigeo.ops.products.channelwise_product import channelwise_product_reference
from equigeo.ops.products.channelwise_product_backward import (
    channelwise_product_backward,
    channelwise_product_backward_reference,
)
from equigeo.ops.products.radial_conv import radial_conv_reference
from tests.ops.op import Op, in_order
from tests.ops.problems import Problem


def coefficients(d1: int, d2: int, d3: int) -> Tensor:
    """Any numbers will do, some of them zero: the op does not know what they stand for."""
    numbers = (torch.arange(d1 * d2 * d3, dtype=torch.float64) + d1).sin().view(d1, d2, d3)
    return torch.where(numbers.abs() < 0.4, 0.0, numbers)


def channelwise_path(
    x: int,
    y: int,
    out: int,
    weight: int | None,
    mul: int,
    mul2: int,
    coefficients: Tensor,
    *,
    ir_mul: bool = False,
) -> Path:
    """A path between blocks at these offsets."""
    d1, d2, d3 = coefficients.shape
    segments = [(x, mul, d1), (y, mul2, d2), (out, mul, d3)]
    blocks = [Segment.block(*numbers, ir_mul=ir_mul) for numbers in segments]
    return Path(*blocks, weight, coefficients)


def odd_table() -> PathTable:
    """Odd multiplicities, copies of the second input, shared outputs, a gap in every row."""
    dims = (7 * 3 + 2 + 3 * 7 + 1, 2 * 3 + 1 + 5, 14 + 14 + 7 + 3, 7 * 5 + 3 * 9 + 2)
    paths = [
        channelwise_path(0, 0, 0, 0, 7, 2, coefficients(3, 3, 5)),
        channelwise_path(0, 7, 0, 28, 7, 1, coefficients(3, 5, 5)),
        channelwise_path(23, 6, 36, 35, 3, 1, coefficients(7, 1, 9)),
        channelwise_path(0, 0, 0, 14, 7, 2, coefficients(3, 3, 5)),
    ]
    return PathTable.from_paths(paths, dims, by_output=True)


def sparse_table() -> PathTable:
    """Weights, and numbers of every row, that belong to no path; paths of several warps.

    One has more components than pass through shared memory, one has no coefficients.
    """
    paths = [channelwise_path(0, 1, 2, 40 * n + 3, 5, 1, coefficients(1, 3, 3)) for n in (0, 2, 3)]
    paths.append(channelwise_path(7, 0, 20, 90, 3, 1, coefficients(3, 1, 5)))
    paths.append(channelwise_path(7, 0, 37, 100, 3, 1, coefficients(3, 1, 15)))
    paths.append(channelwise_path(0, 1, 2, 110, 5, 1, torch.zeros(1, 3, 3)))
    return PathTable.from_paths(paths, (17, 5, 160, 84), by_output=True)


def long_table() -> PathTable:
    """A matrix of more numbers than a warp stages at once."""
    path = channelwise_path(0, 0, 0, 0, 2, 1, coefficients(13, 1, 33))
    return PathTable.from_paths([path], (26, 1, 2, 66), by_output=True)


def broad_table() -> PathTable:
    """More channels with components inside than a warp has lanes."""
    paths = [
        channelwise_path(0, 0, 0, 0, 70, 1, coefficients(3, 3, 1)),
        channelwise_path(210, 3, 70, 70, 40, 1, coefficients(1, 1, 3)),
    ]
    return PathTable.from_paths(paths, (250, 4, 110, 190), by_output=True)


def deep_table() -> PathTable:
    """As many components of as many channels as a warp takes at once, and more than it stages."""
    paths = [
        channelwise_path(0, 0, 0, 0, 64, 1, coefficients(13, 1, 3)),
        channelwise_path(832, 1, 192, 64, 40, 1, coefficients(3, 1, 9)),
    ]
    return PathTable.from_paths(paths, (952, 2, 104, 552), by_output=True)


def wide_table(*, weighted: bool) -> PathTable:
    """Whole registers, components outside, and a row that is covered."""
    dims = (16 * 4 + 37 * 5, 4, 16 * 2 + 37 if weighted else 0, 16 * 3 + 16 + 37 * 11)
    paths = [(0, 0, 16, 1, 1), (16, 48, 16, 3, 3), (64, 64, 37, 5, 11)]
    starts = (0, 16, 32)
    rows = [
        channelwise_path(
            *(x, 3 - i, out, start if weighted else None, mul, 1, coefficients(d1, 1, d3)),
            ir_mul=True,
        )
        for i, ((x, out, mul, d1, d3), start) in enumerate(
            zip([(0, 48, 16, 1, 1), (16, 0, 16, 3, 3), paths[2]], starts, strict=True)
        )
    ]
    return PathTable.from_paths(rows, dims, by_output=True)


TABLES = {
    "odd": odd_table(),
    "wide": wide_table(weighted=True),
    "unweighted": wide_table(weighted=False),
}


def channelwise_rows() -> Iterator[Op]:
    yield product_backward_row("sparse", sparse_table())
    yield product_backward_row("long", long_table())
    yield conv_backward_row("sparse", sparse_table())
    yield conv_row("broad", broad_table())
    yield conv_backward_row("broad", broad_table())
    for name, table in {"broad": broad_table(), "deep": deep_table()}.items():
        yield product_row(name, table)
        yield product_backward_row(name, table)
    for name, table in TABLES.items():
        yield product_row(name, table)
        yield product_backward_row(name, table)
        if name != "unweighted":
            yield conv_row(name, table)
            yield conv_backward_row(name, table)
            yield radial_row(name, table)


def arrays(table: PathTable) -> list[Tensor]:
    return [table.paths, table.entries, table.values]


def rebuilt(table: PathTable, tensors: tuple[Tensor, ...]) -> PathTable:
    dims = (table.dim_x, table.dim_y, table.dim_weight, table.dim_out)
    return PathTable(*tensors, *dims, table.ir_mul)


def operands(
    table: PathTable, sources: Callable[[Problem], int], *, grad: Callable[[Problem], int] | None
) -> Callable[[Problem, torch.dtype], list[Tensor]]:
    def features(problem: Problem, dtype: torch.dtype) -> list[Tensor]:
        shapes = [("x", sources(problem), table.dim_x), ("y", problem.edges, table.dim_y)]
        if grad is not None:
            shapes.insert(0, ("grad", grad(problem), table.dim_out))
        if table.dim_weight:
            shapes.append(("weight", problem.edges, table.dim_weight))
        return [problem.randn(name, rows, dim, dtype=dtype) for name, rows, dim in shapes]

    return features


def with_weight(
    function: Callable[..., Any], count: int, table: PathTable, constants: tuple[Any, ...]
) -> Callable[..., Any]:
    """Insert the missing weight behind ``count`` features, and the constants at the end."""

    def call(*arguments: Any) -> Any:
        features = list(arguments[:count])
        rest = arguments[count:]
        if not table.dim_weight:
            features.append(None)
            return without_empty(function(*features, *rest, *constants))
        return function(*features, rest[0], *rest[1:], *constants)

    return call


def without_empty(result: Any) -> Any:
    return result[:2] if isinstance(result, tuple) else result


def options(table: PathTable, count: int, constants: tuple[Any, ...]) -> dict[str, Any]:
    return {"constants": constants, "missing": None if table.dim_weight else count}


def product_row(name: str, table: PathTable) -> Op:
    def call(x: Tensor, y: Tensor, *rest: Tensor) -> Tensor:
        weight, rest = (rest[0], rest[1:]) if table.dim_weight else (None, rest)
        return channelwise_product(x, y, weight, rebuilt(table, rest))

    constants = (table.dim_out, table.ir_mul)
    return Op(
        "channelwise_product",
        call,
        with_weight(in_order(channelwise_product_reference), 2, table, constants),
        operands(table, lambda p: p.edges, grad=None),
        lambda graph: arrays(table),
        f"channelwise_product, {name}",
        **options(table, 2, constants),
    )


def product_backward_row(name: str, table: PathTable) -> Op:
    constants = (table.ir_mul,)
    return Op(
        "channelwise_product_backward",
        with_weight(channelwise_product_backward, 3, table, constants),
        with_weight(in_order(channelwise_product_backward_reference), 3, table, constants),
        operands(table, lambda p: p.edges, grad=lambda p: p.edges),
        lambda graph: arrays(table),
        f"channelwise_product_backward, {name}",
        **options(table, 3, constants),
    )


def graph_tensors(graph: EdgeIndex) -> list[Tensor]:
    forward = [graph.source, graph.ptr, graph.order]
    return [*forward, graph.target, graph.back_order, graph.back_ptr]


def conv_row(name: str, table: PathTable) -> Op:
    def call(x: Tensor, y: Tensor, weight: Tensor, *rest: Tensor) -> Tensor:
        return channelwise_conv(x, y, weight, rest[:6], rebuilt(table, rest[6:]))

    constants = (table.dim_out, table.ir_mul)
    return Op(
        "channelwise_conv",
        call,
        with_weight(in_order(channelwise_conv_reference), 2, table, constants),
        operands(table, lambda p: p.sources, grad=None),
        lambda graph: [*graph_tensors(graph), *arrays(table)],
        f"channelwise_conv, {name}",
        **options(table, 2, constants),
    )


def conv_backward_row(name: str, table: PathTable) -> Op:
    constants = (table.ir_mul,)
    return Op(
        "channelwise_conv_backward",
        with_weight(channelwise_conv_backward, 3, table, constants),
        with_weight(in_order(channelwise_conv_backward_reference), 3, table, constants),
        operands(table, lambda p: p.sources, grad=lambda p: p.targets),
        lambda graph: [*graph_tensors(graph), *arrays(table)],
        f"channelwise_conv_backward, {name}",
        **options(table, 3, constants),
    )


def radial_row(name: str, table: PathTable) -> Op:
    def call(x: Tensor, y: Tensor, hidden: Tensor, radial: Tensor, *rest: Tensor) -> Tensor:
        return radial_conv(x, y, hidden, radial, rest[:6], rebuilt(table, rest[6:]))

    def features(problem: Problem, dtype: torch.dtype) -> list[Tensor]:
        shapes = {
            "x": (problem.sources, table.dim_x),
            "y": (problem.edges, table.dim_y),
            "hidden": (problem.edges, 3),
            "radial": (3, table.dim_weight),
        }
        return [problem.randn(name, *shape, dtype=dtype) for name, shape in shapes.items()]

    constants = (table.dim_out, table.ir_mul)
    return Op(
        "radial_conv",
        call,
        lambda *arguments: in_order(radial_conv_reference)(*arguments, *constants),
        features,
        lambda graph: [*graph_tensors(graph), *arrays(table)],
        f"radial_conv, {name}",
        blas=True,  # its gradients
        constants=constants,
    )
