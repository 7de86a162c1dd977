"""Ops of the op table for products and convolutions that keep channels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from equigeo.graphs import EdgeIndex
from equigeo.ops import (
    PathTable,
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
from tests.ops.channelwise_tables import (
    TABLES,
    batch_table,
    broad_table,
    deep_table,
    empty_table,
    even_table,
    full_table,
    gap_table,
    heavy_table,
    long_table,
    many_table,
    sparse_table,
    turns_table,
)
from tests.ops.op import Op, in_order
from tests.ops.problems import Problem


def channelwise_rows() -> Iterator[Op]:
    for name, table in {"broad": broad_table(), "deep": deep_table()}.items():
        yield product_row(name, table)
        yield product_backward_row(name, table)
        yield conv_row(name, table)
        yield conv_backward_row(name, table)
    for name, table in TABLES.items():
        yield product_row(name, table)
        yield product_backward_row(name, table)
        if name != "unweighted":
            yield conv_row(name, table)
            yield conv_backward_row(name, table)
            yield radial_row(name, table)
    yield product_backward_row("sparse", sparse_table())
    yield conv_backward_row("sparse", sparse_table())
    yield product_row("long", long_table())
    yield product_backward_row("long", long_table())
    yield product_row("even", even_table())
    yield product_backward_row("full", full_table())
    yield conv_row("many", many_table())
    yield conv_backward_row("by turns", turns_table())
    yield product_backward_row("gap", gap_table())
    yield product_row("batch", batch_table())
    yield product_row("no paths", empty_table())
    yield product_backward_row("no paths", empty_table())
    yield product_backward_row("heavy", heavy_table())
    yield conv_backward_row("heavy", heavy_table())
    # More than a warp stages at once.
    yield radial_row("many hidden numbers", TABLES["odd"], numbers=113)


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
    return {"constants": constants, "missing": () if table.dim_weight else (count,)}


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


def radial_row(name: str, table: PathTable, numbers: int = 3) -> Op:
    def call(x: Tensor, y: Tensor, hidden: Tensor, radial: Tensor, *rest: Tensor) -> Tensor:
        return radial_conv(x, y, hidden, radial, rest[:6], rebuilt(table, rest[6:]))

    def features(problem: Problem, dtype: torch.dtype) -> list[Tensor]:
        shapes = {
            "x": (problem.sources, table.dim_x),
            "y": (problem.edges, table.dim_y),
            "hidden": (problem.edges, numbers),
            "radial": (numbers, table.dim_weight),
        }
        tensors = [problem.randn(name, *shape, dtype=dtype) for name, shape in shapes.items()]
        tensors[2] *= 3 / numbers  # weights, sums over the hidden numbers, stay of order one
        return tensors

    constants = (table.dim_out, table.ir_mul)
    return Op(
        "radial_conv",
        call,
        lambda *arguments: in_order(radial_conv_reference)(*arguments, *constants),
        features,
        lambda graph: [*graph_tensors(graph), *arrays(table)],
        f"radial_conv, {name}",
        blas=True,  # its gradients
        terms=numbers,
        constants=constants,
    )
