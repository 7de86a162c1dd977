"""Op-table rows of products, convolutions that keep channels, and their two orders of gradients.

A product makes a form F(grad, x, y, weight) with the gradient that arrives, linear in each
argument. Its gradients are the derivatives of F by x, y and weight. The ops of second derivatives
differentiate these along tangents of some operands (``along``) by some arguments (``by``).
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from equigeo import ops
from equigeo.graphs import EdgeIndex
from equigeo.ops import PathTable
from equigeo.ops.products.multilinear import FEATURES, FORM, OPERANDS
from equigeo.ops.runtime.declare import declared, reference_of
from tests.ops.op import Op, of_kernels, op_row
from tests.ops.path_tables import (
    CHANNELWISE,
    COPYWISE,
    LARGE,
    MIXED,
    OF_KERNELS,
    SPARSE,
    very_broad_table,
)
from tests.ops.problems import Problem

BY_GRAPH = ("channelwise_conv", "radial_conv", "spline_conv")
ALL_CHANNELWISE = {**LARGE, **CHANNELWISE, **SPARSE, **OF_KERNELS}
BROAD = {f"broad, {k}": very_broad_table(ir_mul=k == "ir_mul") for k in ("mul_ir", "ir_mul")}
EVERY = {
    "channelwise_product": ALL_CHANNELWISE,
    "channelwise_conv": ALL_CHANNELWISE,
    "copywise_product": COPYWISE,
    "fully_connected_product": MIXED | BROAD,
}
# Tables by product: of values, of gradients, and of second gradients where all are asked for.
Names = dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]]
PAIRED, WEIGHTED = ("pairs", "natural", "strided"), ("broad", "deep", "odd", "wide")
ROWS: Names = {
    "channelwise_product": (
        (*WEIGHTED, "unweighted"),
        (*WEIGHTED, "unweighted", "sparse", "heavy"),
        ("odd", "wide", "unweighted"),
    ),
    "channelwise_conv": (WEIGHTED, (*WEIGHTED, "sparse", "heavy"), ("odd",)),
    "copywise_product": (PAIRED, PAIRED, PAIRED),
    "fully_connected_product": (("mul_ir", "ir_mul"),) * 3,
}
# Sizes, none among them, and orders of paths that kernels alone notice.
ROWS_OF_KERNELS: Names = {
    "channelwise_product": (
        ("long", "even", "batch", "no paths"),
        ("long", "full", "gap", "no paths"),
        ("broad", "deep", "sparse", "heavy", "long", "full", "gap"),
    ),
    "channelwise_conv": (
        ("many",),
        ("by turns",),
        ("broad", "deep", "sparse", "heavy", "wide", "unweighted", "by turns"),
    ),
    "copywise_product": (("overlapping",),) * 3,
    "fully_connected_product": (("many pairs",), ("many pairs",), ("many pairs", *BROAD)),
}
# Gradients without those of the weights, which some paths do not cover.
FROZEN = [
    ("channelwise_product", "sparse"),
    ("channelwise_conv", "sparse"),
    ("copywise_product", "natural"),
    ("fully_connected_product", "mul_ir"),
]
# Second gradients of which PyTorch sees that some are missing.
SOME = [
    ("channelwise_product", "unweighted", {"along": "y"}),
    ("channelwise_product", "odd", {"along": "x", "by": "y"}),
    ("channelwise_conv", "odd", {"along": "weight", "by": "x"}),
    ("copywise_product", "pairs", {"along": "weight", "by": "x"}),
    ("copywise_product", "natural", {"along": "y"}),
    ("fully_connected_product", "mul_ir", {"along": "x", "by": "y"}),
]

# Tables, functions, columns in excess of weights, and whether the first input has a gradient. Rows
# of coefficients are read in place if they fill registers, as those of 69 weights and 11 columns.
SPLINES = [("odd", 6, 0, True), ("wide", 2, 11, False)]
SPLINES_OF_KERNELS = [
    ("odd", 1, 3, False),
    ("odd", 10, 26, True),
    ("sparse", 10, 5, True),
    ("heavy", 16, 0, True),
    ("by turns", 6, 3, True),
]


def product_rows() -> Iterator[Op]:
    yield from rows_of(ROWS)
    yield from (radial_row(name, CHANNELWISE[name]) for name in ("odd", "wide"))
    for name, functions, columns, by_x in SPLINES:
        yield spline_row(name, functions, columns)
        yield spline_gradient_row(name, functions, columns, by_x=by_x)
    for product, name in FROZEN:
        yield gradient_row(product, name, EVERY[product][name], by_weight=False)
    yield from (second_row(product, name, **some) for product, name, some in SOME)
    yield from of_kernels(rows_of(ROWS_OF_KERNELS))
    # More than a warp stages at once.
    yield radial_row("many hidden numbers", CHANNELWISE["odd"], numbers=113, of_kernels=True)
    yield from of_kernels([second_row("channelwise_product", "sparse", by="x")])
    for name, functions, columns, by_x in SPLINES_OF_KERNELS:
        yield from of_kernels([spline_row(name, functions, columns)])
        yield from of_kernels([spline_gradient_row(name, functions, columns, by_x=by_x)])
    # One tangent, and one result.
    for product, name in zip(EVERY, ("odd", "odd", "pairs", "mul_ir"), strict=True):
        yield from of_kernels(second_row(product, name, along=operand) for operand in OPERANDS)
        yield from of_kernels(second_row(product, name, by=argument) for argument in FORM)


def rows_of(names: Names) -> Iterator[Op]:
    for product, (of_values, of_gradients, of_second) in names.items():
        yield from (value_row(product, name, EVERY[product][name]) for name in of_values)
        yield from (gradient_row(product, name, EVERY[product][name]) for name in of_gradients)
        yield from (second_row(product, name) for name in of_second)


def arrays(table: PathTable) -> list[Tensor]:
    return [table.paths, table.entries, table.values]


def graph_tensors(graph: EdgeIndex) -> list[Tensor]:
    forward = [graph.source, graph.ptr, graph.order]
    return [*forward, graph.target, graph.back_order, graph.back_ptr]


def shapes_of(
    product: str, table: PathTable, names: Sequence[str]
) -> Callable[[Problem], dict[str, tuple[int, int]]]:
    """Rows and components of features, which are tangents or arguments of the form."""
    sizes = (table.dim_out, table.dim_x, table.dim_y, table.dim_weight)
    dims = dict(zip(FORM, sizes, strict=True))

    def shapes(problem: Problem) -> dict[str, tuple[int, int]]:
        by_node = {"grad": problem.targets, "x": problem.sources} if product in BY_GRAPH else {}
        of = {name: name.removesuffix("_tangent") for name in names}
        return {name: (by_node.get(a, problem.edges), dims[a]) for name, a in of.items() if dims[a]}

    return shapes


def rest_of(product: str, table: PathTable) -> Callable[[EdgeIndex], list[Tensor]]:
    return lambda graph: [*(graph_tensors(graph) if product in BY_GRAPH else []), *arrays(table)]


def layout_of(product: str, table: PathTable) -> tuple[bool, ...]:
    return () if product in ("copywise_product", "fully_connected_product") else (table.ir_mul,)


def value_row(product: str, name: str, table: PathTable, **options: Any) -> Op:
    count = 4 if product == "radial_conv" else 3

    def call(*given: Any) -> Tensor:
        graph, tensors = given[count : count + 6], given[count:]
        if product in BY_GRAPH:
            tensors = tensors[6:]
        dims = (table.dim_x, table.dim_y, table.dim_weight, table.dim_out)
        paths = PathTable(*tensors[:3], *dims, table.ir_mul)
        graphs = (graph,) if product in BY_GRAPH else ()
        return getattr(ops, product)(*given[:count], *graphs, paths)

    given = {
        "shapes": shapes_of(product, table, OPERANDS),
        "without": () if table.dim_weight else ("weight",),
    } | options
    constants = (table.dim_out, *layout_of(product, table))
    return op_row(
        product, f"{product}, {name}", given.pop("shapes"), rest_of(product, table), *constants,
        call=call, **given,
    )  # fmt: skip


def radial_row(name: str, table: PathTable, numbers: int = 3, **options: Any) -> Op:
    def shapes(problem: Problem) -> dict[str, tuple[int, int]]:
        found = shapes_of("radial_conv", table, ("x", "y"))(problem)
        return {**found, "hidden": (problem.edges, numbers), "radial": (numbers, table.dim_weight)}

    return value_row(
        "radial_conv", name, table, shapes=shapes, terms=numbers,
        changes={"hidden": lambda x: x * 3 / numbers},  # weights, sums over them, are of order one
        blas=True,  # its gradients
        **options,
    )  # fmt: skip


def spline_row(name: str, functions: int, columns: int) -> Op:
    table = ALL_CHANNELWISE[name]

    def shapes(problem: Problem) -> dict[str, tuple[int, ...]]:
        found = shapes_of("spline_conv", table, ("x", "y"))(problem)
        return {**found, "position": (problem.edges,)}

    def call(x: Tensor, y: Tensor, position: Tensor, *given: Any) -> Tensor:
        (first, *numbers), graph, arrays = given[:3], given[3:9], given[9:12]
        spline = (position, first, *(n.to(x.dtype) for n in numbers))
        dims = (table.dim_x, table.dim_y, table.dim_weight, table.dim_out)
        paths = PathTable(*arrays, *dims, table.ir_mul)
        return ops.spline_conv(x, y, spline, graph, paths)

    return op_row(
        "spline_conv", spline_label("spline_conv", name, functions), shapes,
        spline_rest(table, functions, columns), table.dim_out, table.ir_mul,
        call=call, changes={"position": torch.sigmoid}, terms=functions,
    )  # fmt: skip


def spline_gradient_row(name: str, functions: int, columns: int, *, by_x: bool) -> Op:
    table, op = ALL_CHANNELWISE[name], "spline_conv_backward"

    def shapes(problem: Problem) -> dict[str, tuple[int, ...]]:
        found = shapes_of("spline_conv", table, ("grad", "x", "y"))(problem)
        return {**found, "position": (problem.edges,)}

    return op_row(
        op, spline_label(op, name, functions) + " by x" * by_x, shapes,
        spline_rest(table, functions, columns), table.ir_mul, by_x, results=(0, 1, 2)[not by_x :],
        changes={"position": torch.sigmoid}, terms=functions * (table.dim_weight + columns),
    )  # fmt: skip


def spline_label(op: str, name: str, functions: int) -> str:
    return f"{op}, {name}, functions of degree {functions}"


def spline_rest(
    table: PathTable, functions: int, columns: int
) -> Callable[[EdgeIndex], list[Tensor]]:
    """Pieces of edges in no order, and arbitrary numbers that every dtype has."""

    def numbers(*shape: int) -> Tensor:
        found = torch.arange(math.prod(shape), dtype=torch.float64).add(functions).sin()
        return (found / functions**0.5).bfloat16().double().view(shape)

    def rest(graph: EdgeIndex) -> list[Tensor]:
        first = 3 * torch.arange(graph.num_edges) % 5
        shapes = (functions + 1, functions), (2, functions + 4, table.dim_weight + columns)
        tensors = [numbers(*shape) for shape in shapes]
        return [first, *tensors, *graph_tensors(graph), *arrays(table)]

    return rest


def gradient_row(product: str, name: str, table: PathTable, *, by_weight: bool = True) -> Op:
    op, constants = f"{product}_backward", (*layout_of(product, table), by_weight)
    options: dict[str, Any] = {} if table.dim_weight else {"without": ("weight",)}
    if not (by_weight and table.dim_weight):
        options["results"] = (0, 1)
    shapes, rest = shapes_of(product, table, FORM), rest_of(product, table)
    label = f"{op}, {name}" + ", of frozen weights" * (not by_weight)
    return op_row(op, label, shapes, rest, *constants, **options)


def second_row(product: str, name: str, *, along: str = "", by: str = "") -> Op:
    """A row with all tangents and results, or with one of either."""
    table = EVERY[product][name]
    op, layout = f"{product}_double_backward", layout_of(product, table)
    absent = {f"{operand}_tangent" for operand in OPERANDS if along not in ("", operand)}
    if not table.dim_weight:
        absent |= {"weight", "weight_tangent"}
    wanted = tuple(by in ("", argument) for argument in FORM)
    results = [k for k, argument in enumerate(FORM) if wanted[k] and argument not in absent]

    def call(*given: Any) -> Any:
        found = declared(op)(*given)
        assert not any(x.numel() for k, x in enumerate(found) if k not in results)
        return found

    def reference(*given: Any) -> dict[int, Tensor]:
        given = (*given[: -len(wanted)], True)  # layout included
        return differentiated(reference_of(f"{product}_backward"), results, given)

    change = ", ".join(f"{word} {what}" for word, what in (("along", along), ("by", by)) if what)
    names = [name for name in FEATURES if name not in absent]
    return op_row(
        op, f"{op}, {name} {change}".strip(), shapes_of(product, table, names),
        rest_of(product, table), *layout, *wanted, call=call, reference=reference,
        without=absent, results=results,
    )  # fmt: skip


def differentiated(
    gradients: Callable[..., Any], results: Sequence[int], arguments: Sequence[Any]
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
