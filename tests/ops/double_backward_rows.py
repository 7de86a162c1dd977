"""Op-table rows for second derivatives of products.

A product makes a form F(grad, x, y, weight) with the gradient that arrives, linear in each
argument. Its gradients are the derivatives of F by x, y and weight. The ops here differentiate
these gradients along tangents of some operands (``along``) by some arguments of the form (``by``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from equigeo.graphs import EdgeIndex
from equigeo.ops import Path, PathTable, Segment
from equigeo.ops.products.channelwise_conv_backward import channelwise_conv_backward_reference
from equigeo.ops.products.channelwise_conv_double_backward import channelwise_conv_double_backward
from equigeo.ops.products.channelwise_product_backward import channelwise_product_backward_reference
from equigeo.ops.products.channelwise_product_double_backward import (
    channelwise_product_double_backward,
)
from equigeo.ops.products.copywise_product_backward import copywise_product_backward_reference
from equigeo.ops.products.copywise_product_double_backward import copywise_product_double_backward
from equigeo.ops.products.fully_connected_product_backward import (
    fully_connected_product_backward_reference,
)
from equigeo.ops.products.fully_connected_product_double_backward import (
    fully_connected_product_double_backward,
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
from tests.ops.connected_rows import COPYWISE, MIXED, path_between
from tests.ops.op import Op, in_order
from tests.ops.problems import Problem


@dataclass(frozen=True)
class Product:
    """The op of second derivatives, and the gradients that PyTorch differentiates instead."""

    op: Callable[..., Any]
    gradients: Callable[..., Any]
    by_graph: bool = False
    by_layout: bool = False

    def rest(self, table: PathTable) -> Callable[[EdgeIndex], list[Tensor]]:
        return lambda graph: [*(graph_tensors(graph) if self.by_graph else []), *arrays(table)]

    def rows(self, name: str, problem: Problem) -> int:
        by_node = {"grad": problem.targets, "x": problem.sources} if self.by_graph else {}
        return by_node.get(name, problem.edges)


PRODUCTS = {
    "channelwise_product": Product(
        channelwise_product_double_backward,
        in_order(channelwise_product_backward_reference),
        by_layout=True,
    ),
    "channelwise_conv": Product(
        channelwise_conv_double_backward,
        in_order(channelwise_conv_backward_reference),
        by_graph=True,
        by_layout=True,
    ),
    "copywise_product": Product(
        copywise_product_double_backward, in_order(copywise_product_backward_reference)
    ),
    "fully_connected_product": Product(
        fully_connected_product_double_backward,
        in_order(fully_connected_product_backward_reference),
    ),
}
CHANNELWISE = ("channelwise_product", "channelwise_conv")


def very_broad_table(*, ir_mul: bool) -> PathTable:
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


def double_backward_rows() -> Iterator[Op]:
    """Yield rows that differ for PyTorch: in weights, tangents and results."""
    odd, pairs, mul_ir = TABLES["odd"], COPYWISE["pairs"], MIXED["mul_ir"]
    for name, table in TABLES.items():
        yield _row("channelwise_product", name, table)
    yield _row("channelwise_conv", "odd", odd)
    yield _row("channelwise_product", "unweighted along y", TABLES["unweighted"], along=["y"])
    yield _row("channelwise_product", "odd along x, by y", odd, along=["x"], by=["y"])
    yield _row("channelwise_conv", "odd along weight, by x", odd, along=["weight"], by=["x"])
    for name in ("pairs", "natural", "strided"):
        yield _row("copywise_product", name, COPYWISE[name])
    yield _row("copywise_product", "pairs along weight, by x", pairs, along=["weight"], by=["x"])
    yield _row("copywise_product", "natural along y", COPYWISE["natural"], along=["y"])
    for name in ("mul_ir", "ir_mul"):
        yield _row("fully_connected_product", name, MIXED[name])
    yield _row("fully_connected_product", "mul_ir along x, by y", mul_ir, along=["x"], by=["y"])


def double_backward_rows_of_kernels() -> Iterator[Op]:
    """Yield rows that differ for kernels alone: in sizes, and in what is computed."""
    tables = {"broad": broad_table(), "deep": deep_table(), "sparse": sparse_table()}
    tables["heavy"] = heavy_table()
    for product in CHANNELWISE:
        for name, table in tables.items():
            yield _row(product, name, table)
        yield from _alone(product, "odd", TABLES["odd"])
    for name in ("wide", "unweighted"):
        yield _row("channelwise_conv", name, TABLES[name])
    yield _row("channelwise_conv", "by turns", turns_table())
    yield _row("channelwise_product", "sparse by x", sparse_table(), by=["x"])
    for name, table in (("long", long_table()), ("full", full_table()), ("gap", gap_table())):
        yield _row("channelwise_product", name, table)
    yield _row("copywise_product", "overlapping", COPYWISE["overlapping"])
    yield from _alone("copywise_product", "pairs", COPYWISE["pairs"])
    yield _row("fully_connected_product", "many pairs", MIXED["many pairs"])
    for layout in ("mul_ir", "ir_mul"):
        table = very_broad_table(ir_mul=layout == "ir_mul")
        yield _row("fully_connected_product", f"broad, {layout}", table)
    yield from _alone("fully_connected_product", "mul_ir", MIXED["mul_ir"])


def _alone(product: str, name: str, table: PathTable) -> Iterator[Op]:
    """Yield rows with one tangent, and with one result."""
    for operand in OPERANDS:
        yield _row(product, f"{name} along {operand}", table, along=[operand])
    for argument in FORM:
        yield _row(product, f"{name} by {argument}", table, by=[argument])


def _row(
    product: str,
    name: str,
    table: PathTable,
    along: Sequence[str] = OPERANDS,
    by: Sequence[str] = FORM,
) -> Op:
    it, op = PRODUCTS[product], f"{product}_double_backward"
    sizes = (table.dim_out, table.dim_x, table.dim_y, table.dim_weight)
    dims = dict(zip(FORM, sizes, strict=True))
    absent = {f"{operand}_tangent" for operand in OPERANDS if operand not in along}
    if not table.dim_weight:
        absent |= {"weight", "weight_tangent"}
    missing = tuple(k for k, name in enumerate(FEATURES) if name in absent)
    results = [k for k, name in enumerate(FORM) if name in by and name not in absent]
    layout = (table.ir_mul,) if it.by_layout else ()
    constants = (*layout, *(name in by for name in FORM))

    def features(problem: Problem, dtype: torch.dtype) -> list[Tensor]:
        of = {name: name.removesuffix("_tangent") for name in FEATURES if name not in absent}
        shapes = {name: (it.rows(a, problem), dims[a]) for name, a in of.items()}
        return [problem.randn(name, *shape, dtype=dtype) for name, shape in shapes.items()]

    def filled(arguments: tuple[Any, ...]) -> list[Any]:
        given = list(arguments)
        for position in missing:
            given.insert(position, None)
        return given

    def kept(found: Sequence[Tensor]) -> Any:
        return tuple(found[k] for k in results) if len(results) > 1 else found[results[0]]

    def call(*arguments: Tensor) -> Any:
        found = it.op(*filled(arguments), *constants)
        assert not any(x.numel() for k, x in enumerate(found) if k not in results)
        return kept(found)

    def reference(*arguments: Tensor) -> Any:
        return kept(differentiated(it.gradients, results, [*filled(arguments), *layout]))

    label = f"{op}, {name}"
    rest = it.rest(table)
    return Op(op, call, reference, features, rest, label, missing=missing, constants=constants)


def differentiated(
    gradients: Callable[..., Any], results: Sequence[int], arguments: list[Any]
) -> dict[int, Tensor]:
    """Differentiate gradients along tangents with PyTorch."""
    point = arguments[: len(FORM)]
    tangents, rest = arguments[len(FORM) : len(FEATURES)], arguments[len(FEATURES) :]
    with torch.enable_grad():
        point = [x if x is None or x.requires_grad else x.detach().requires_grad_() for x in point]
        found = gradients(*point, *rest)
        pairs = [(f, t) for f, t in zip(found, tangents, strict=True) if t is not None]
        slopes = torch.autograd.grad(
            [f for f, _ in pairs], [point[k] for k in results], [t for _, t in pairs],
            create_graph=True, materialize_grads=True,
        )  # fmt: skip
    return dict(zip(results, slopes, strict=True))
