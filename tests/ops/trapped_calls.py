"""Calls that would lead a kernel out of its arrays: on a device they must end in a trap."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from equigeo.graphs import EdgeIndex
from equigeo.ops import PathTable
from tests.ops.path_tables import channelwise_path
from tests.ops.product_rows import graph_tensors
from tests.ops.table_rows import TABLES, WEIGHTS, arrays, lists

OPS = torch.ops.equigeo
ROWS = 3
# Columns of the table of paths.
X, Y, OUT, WEIGHT, FIRST, LAST = 0, 5, 10, 15, 16, 17
OFFSET, COPIES, COMPONENTS, COPY, STEP = range(5)
Change = dict[tuple[int, int], int]


def paths_table(count: int, change: Change, entries: Change, components: int = 3) -> list[Tensor]:
    """Products of two vectors, some numbers of whose paths and coefficients are changed."""
    ones = torch.ones(components, 3, 3)
    paths = [channelwise_path(0, 0, 6 * p, 2 * p, 2, 1, ones) for p in range(count)]
    dims = (2 * components, 3, 2 * count, 6 * count)
    table = PathTable.from_paths(paths, dims, by_output=True)
    for place, value in change.items():
        table.paths[place] = value
    for place, value in entries.items():
        table.entries[place] = value
    return [table.paths, table.entries, table.values.float()]


def product(
    count: int,
    change: Change,
    entries: Change | None = None,
    *,
    components: int = 3,
    dim_x: int = 6,
) -> None:
    """A channelwise product by such a table."""
    tables = paths_table(count, change, entries or {}, components)
    x, y, weight = (torch.ones(ROWS, d) for d in (dim_x, 3, 2 * count))
    OPS.channelwise_product(x, y, weight, *tables, 6 * count, False)


def product_backward(components: int) -> None:
    """The gradients of a channelwise product whose output has that many components."""
    coefficients = torch.zeros(13, 1, components)
    coefficients[:, :, -1] = 1
    path = channelwise_path(0, 0, 0, 0, 1, 1, coefficients)
    table = PathTable.from_paths([path], (13, 1, 1, components), by_output=True)
    grad, x, y, weight = (torch.ones(ROWS, d) for d in (components, 13, 1, 1))
    tables = table.paths, table.entries, table.values.float()
    OPS.channelwise_product_backward(grad, x, y, weight, *tables, False)


def graph(name: str, place: int, value: int) -> list[Tensor]:
    """The tensors of a graph of three nodes, a number of one of which is changed."""
    edges = EdgeIndex.from_edges(torch.tensor([[0, 1, 2, 2], [0, 0, 1, 2]]), ROWS, ROWS)
    names = ("source", "ptr", "order", "target", "back_order", "back_ptr")
    tensors = dict(zip(names, graph_tensors(edges), strict=True))
    tensors[name] = tensors[name].clone()
    tensors[name][place] = value
    return list(tensors.values())


def conv(name: str, place: int, value: int) -> None:
    """A channelwise convolution on such a graph."""
    x, y, weight = torch.ones(ROWS, 6), torch.ones(4, 3), torch.ones(4, 2)
    tensors = graph(name, place, value)
    OPS.channelwise_conv(x, y, weight, *tensors, *paths_table(1, {}, {}), 6, False)


def conv_backward(name: str, place: int, value: int) -> None:
    """Its gradient."""
    grad, x, y, weight = (torch.ones(r, d) for r, d in ((ROWS, 6), (ROWS, 6), (4, 3), (4, 2)))
    tensors = graph(name, place, value)
    OPS.channelwise_conv_backward(grad, x, y, weight, *tensors, *paths_table(1, {}, {}), False)


def orders(name: str, place: int, value: int) -> None:
    """A convolution by orders on such a graph."""
    x, vectors, weight = torch.ones(ROWS, 2), torch.ones(4, 3), torch.ones(4)
    rest = (*graph(name, place, value), [2, 0, 0], [2, 0, 0], 0, True, True)
    OPS.so2_conv(x, vectors, weight, None, None, None, None, *rest)


def orders_backward(name: str, place: int, value: int) -> None:
    """Its gradient."""
    grad, x, vectors, weight = (torch.ones(*n) for n in ((ROWS, 2), (ROWS, 2), (4, 3), (4,)))
    rest = (*graph(name, place, value), [2, 0, 0], [2, 0, 0], 0, True, True, True, True)
    OPS.so2_conv_backward(grad, x, vectors, weight, None, None, None, None, *rest)


def gather(name: str, place: int, value: int) -> None:
    """A sum over the edges of each target."""
    source, ptr, _, target, _, back_ptr = graph(name, place, value)
    OPS.gather_sum(torch.ones(ROWS, 2), source, ptr, target, back_ptr)


def attention_backward(name: str, place: int, value: int) -> None:
    """The gradient of an attention over such a graph."""
    source, ptr, _, target, back_order, back_ptr = graph(name, place, value)
    rows, edges = torch.ones(ROWS, 2, 5), torch.ones(4, 2)
    tensors = source, ptr, target, back_order, back_ptr
    OPS.segment_attention_backward(rows, edges, rows, edges, *tensors)


def contraction(row: int, value: int) -> None:
    """A contraction whose weights are those of a set that is not there."""
    table = TABLES["one block"]
    index = torch.zeros(ROWS, dtype=torch.int64)
    index[row] = value
    x, weight = torch.ones(ROWS, 9 * 2), torch.ones(2, WEIGHTS, 2)
    tables = [t.float() if t.is_floating_point() else t for t in arrays(table)]
    OPS.symmetric_contraction(x, weight, index, *tables, *lists(table))


def components_differ() -> None:
    """A product of vectors, and one of scalars, of the same place and copies."""
    paths = [
        channelwise_path(0, 0, 6 * p, 2 * p, 2, 1, torch.ones(d, 3, 3))
        for p, d in enumerate((3, 1))
    ]
    table = PathTable.from_paths(paths, (6, 3, 4, 12), by_output=True)
    x, y, weight = (torch.ones(ROWS, d) for d in (6, 3, 4))
    arrays = table.paths, table.entries, table.values.float()
    OPS.channelwise_product(x, y, weight, *arrays, 12, False)


# Rows of inputs, weights and outputs of linear maps.
LINEAR_DIMS = 1024, 16, 1024


def linear(*blocks: list[int]) -> None:
    """A linear map by blocks, each with its places in input and output."""
    dim, weights, dim_out = LINEAR_DIMS
    x, weight, factors = torch.ones(ROWS, dim), torch.ones(1, weights), torch.ones(len(blocks))
    OPS.block_linear(x, weight, torch.tensor(blocks), factors, dim_out, False)


def linear_backward(*blocks: list[int], by_x: bool) -> None:
    """The gradient of its input, or of its weights."""
    dim, weights, dim_out = LINEAR_DIMS
    grad, x, weight = torch.ones(ROWS, dim_out), torch.ones(ROWS, dim), torch.ones(1, weights)
    operands = grad, x, weight, torch.tensor(blocks), torch.ones(len(blocks))
    OPS.block_linear_backward(*operands, False, by_x, not by_x)


TRAPPED: dict[str, Callable[[], Any]] = {
    "an output that leaves its row": partial(product, 2, {(1, OUT + OFFSET): 7}),
    "more components than a kernel has": partial(product, 1, {}, components=2, dim_x=4),
    "weights that leave their row": partial(product, 2, {(1, WEIGHT): 3}),
    "components in another layout": partial(product, 1, {(0, X + COPY): 1, (0, X + STEP): 2}),
    "fewer copies than of the output": partial(product, 1, {(0, X + COPIES): 1}),
    "coefficients before the first one": partial(product, 1, {(0, FIRST): -1}),
    "coefficients behind the last one": partial(product, 1, {(0, LAST): 28}),
    "coefficients that end before they begin": partial(product, 1, {(0, FIRST): 5, (0, LAST): 3}),
    "a coefficient of another component": partial(product, 1, {}, {(0, 0): 3}),
    "coefficients that are shared in part": partial(product, 2, {(1, FIRST): 20}),
    "the first coefficients of another path": partial(product, 2, {(1, FIRST): 0, (1, LAST): 20}),
    "the last coefficients of another path": partial(product, 2, {(1, FIRST): 20, (1, LAST): 27}),
    "the coefficients of another path": partial(product, 2, {(1, FIRST): 0, (1, LAST): 27}),
    "segments of other components": components_differ,
    "first inputs that overlap": partial(product, 2, {(1, X + OFFSET): 1}, dim_x=7),
    "segments of as many copies in part": partial(
        product, 2, {(1, X + COPIES): 1, (1, OUT + COPIES): 1}
    ),
    "outputs that overlap": partial(product, 2, {(1, OUT + OFFSET): 3}),
    "a matrix of more numbers than a block has room for": partial(product_backward, 400),
    "a row that begins before all edges": partial(conv, "ptr", 0, -1),
    "a row that ends before it begins": partial(conv, "ptr", 1, 4),
    "a row that ends behind all edges": partial(conv, "ptr", ROWS, 5),
    "a source that is not there": partial(conv, "source", 1, ROWS),
    "an edge that is not there": partial(conv, "order", 1, 4),
    "a target that is not there": partial(conv_backward, "target", 1, -1),
    "a place that is not there": partial(conv_backward, "back_order", 1, 4),
    "a row of orders that ends before it begins": partial(orders, "ptr", 1, 4),
    "a source of orders that is not there": partial(orders, "source", 1, ROWS),
    "an edge of orders that is not there": partial(orders, "order", 1, -1),
    "a row of orders that ends behind all edges": partial(orders_backward, "back_ptr", ROWS, 5),
    "a target of orders that is not there": partial(orders_backward, "target", 1, ROWS),
    "a place of orders that is not there": partial(orders_backward, "back_order", 1, 4),
    "a row to gather that is not there": partial(gather, "source", 1, ROWS),
    "a value to attend to that is not there": partial(attention_backward, "source", 1, -1),
    "a set of weights that is not there": partial(contraction, 1, 2),
    "more components than a map may have": partial(linear, [0, 1, 0, 1, 1024, 0]),
    "outputs of a map that overlap": partial(linear, [0, 1, 0, 2, 1, 0], [1, 1, 1, 2, 1, 2]),
    "outputs of a map of other copies": partial(linear, [0, 1, 0, 2, 1, 0], [1, 1, 0, 3, 1, 2]),
    "outputs of a map of other components": partial(linear, [0, 1, 0, 3, 1, 0], [1, 1, 0, 1, 3, 3]),
    "inputs of a map that overlap": partial(
        linear_backward, [0, 2, 0, 1, 1, 0], [1, 2, 1, 1, 1, 2], by_x=True
    ),
    "matrices of a map that are shared": partial(
        linear_backward, [0, 1, 0, 1, 1, 0], [1, 1, 1, 1, 1, 0], by_x=False
    ),
}


def assert_trapped(name: str, call: Callable[[], Any]) -> None:
    """See a call end in a trap."""
    try:
        call()
    except RuntimeError as error:
        found = str(error)
    else:
        found = "nothing stopped the kernel"
    if "__trap" not in found:
        raise AssertionError(f"{name}: {found}")
