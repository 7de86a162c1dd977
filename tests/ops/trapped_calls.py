"""Calls that would lead a kernel out of its arrays: on a device they must end in a trap."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from equigeo.ops import PathTable
from tests.ops.path_tables import channelwise_path
from tests.ops.small_calls import EDGES, NODES, at, call, changed, ones

# Columns of the table of paths.
X, Y, OUT, WEIGHT, FIRST, LAST = 0, 5, 10, 15, 16, 17
OFFSET, COPIES, COMPONENTS, COPY, STEP = range(5)
Change = dict[tuple[int, int], int]


def paths(components: list[int], dim_x: int, change: Change | None = None) -> dict[str, Any]:
    """Arguments of a product of two copies with a vector, one path for each number of components.

    Some numbers of the table are changed.
    """
    count = len(components)
    found = [
        channelwise_path(0, 0, 6 * p, 2 * p, 2, 1, torch.ones(d, 3, 3))
        for p, d in enumerate(components)
    ]
    table = PathTable.from_paths(found, (dim_x, 3, 2 * count, 6 * count), by_output=True)
    for place, value in (change or {}).items():
        table.paths[place] = value
    features = ones(x=(EDGES, dim_x), y=(EDGES, 3), weight=(EDGES, 2 * count))
    tensors = {"paths": table.paths, "entries": table.entries, "values": table.values.float()}
    return features | tensors | {"dim_out": 6 * count}


def product(count: int, change: Change, *, dim_x: int = 6, **changes: Any) -> None:
    """A channelwise product by a table of which some numbers are changed."""
    call("channelwise_product", **changed(paths([3] * count, dim_x, change), changes))


def product_backward(components: int) -> None:
    """The gradients of a channelwise product whose output has that many components."""
    coefficients = torch.zeros(13, 1, components)
    coefficients[:, :, -1] = 1
    path = channelwise_path(0, 0, 0, 0, 1, 1, coefficients)
    table = PathTable.from_paths([path], (13, 1, 1, components), by_output=True)
    features = ones(grad=(3, components), x=(3, 13), y=(3, 1), weight=(3, 1))
    tensors = {"paths": table.paths, "entries": table.entries, "values": table.values.float()}
    call("channelwise_product_backward", **features, **tensors)


def linear(*blocks: list[int], by: str = "") -> None:
    """A linear map by blocks with places in input and output, or its gradient by one argument."""
    sizes = ones(grad=(3, 1024), x=(3, 1024), weight=(1, 16), factors=(len(blocks),))
    sizes["blocks"] = torch.tensor(blocks)
    if by:
        call("block_linear_backward", **sizes, by_x=by == "x", by_weight=by == "weight")
    else:
        del sizes["grad"]
        call("block_linear", **sizes, dim_out=1024)


def graph(op: str, name: str, place: int, number: int) -> Callable[[], Any]:
    """A call on a graph a number of one of whose lists is changed."""
    return partial(call, op, **{name: at(place, number)})


TRAPPED: dict[str, Callable[[], Any]] = {
    "an output that leaves its row": partial(product, 2, {(1, OUT + OFFSET): 7}),
    "more components than a kernel has": partial(call, "channelwise_product", **paths([2], 4)),
    "weights that leave their row": partial(product, 2, {(1, WEIGHT): 3}),
    "components in another layout": partial(product, 1, {(0, X + COPY): 1, (0, X + STEP): 2}),
    "fewer copies than of the output": partial(product, 1, {(0, X + COPIES): 1}),
    "coefficients before the first one": partial(product, 1, {(0, FIRST): -1}),
    "coefficients behind the last one": partial(product, 1, {(0, LAST): 28}),
    "coefficients that end before they begin": partial(product, 1, {(0, FIRST): 5, (0, LAST): 3}),
    "a coefficient of another component": partial(product, 1, {}, entries=at((0, 0), 3)),
    "coefficients that are shared in part": partial(product, 2, {(1, FIRST): 20}),
    "the first coefficients of another path": partial(product, 2, {(1, FIRST): 0, (1, LAST): 20}),
    "the last coefficients of another path": partial(product, 2, {(1, FIRST): 20, (1, LAST): 27}),
    "the coefficients of another path": partial(product, 2, {(1, FIRST): 0, (1, LAST): 27}),
    "segments of other components": partial(call, "channelwise_product", **paths([3, 1], 6)),
    "first inputs that overlap": partial(product, 2, {(1, X + OFFSET): 1}, dim_x=7),
    "segments of as many copies in part": partial(
        product, 2, {(1, X + COPIES): 1, (1, OUT + COPIES): 1}
    ),
    "outputs that overlap": partial(product, 2, {(1, OUT + OFFSET): 3}),
    "a matrix of more numbers than a block has room for": partial(product_backward, 400),
    "a row that begins before all edges": graph("channelwise_conv", "ptr", 0, -1),
    "a row that ends before it begins": graph("channelwise_conv", "ptr", 1, EDGES),
    "a row that ends behind all edges": graph("channelwise_conv", "ptr", NODES, EDGES + 1),
    "a source that is not there": graph("channelwise_conv", "source", 1, NODES),
    "an edge that is not there": graph("channelwise_conv", "order", 1, EDGES),
    "a target that is not there": graph("channelwise_conv_backward", "target", 1, -1),
    "a place that is not there": graph("channelwise_conv_backward", "back_order", 1, EDGES),
    "a function of a spline that is not there": graph("spline_conv", "first", 1, -1),
    "functions that end behind all": graph("spline_conv_backward", "first", 1, 2),
    "a row of orders that ends before it begins": graph("so2_conv", "ptr", 1, EDGES),
    "a source of orders that is not there": graph("so2_conv", "source", 1, NODES),
    "an edge of orders that is not there": graph("so2_conv", "order", 1, -1),
    "a row of orders that ends behind all edges": graph(
        "so2_conv_backward", "back_ptr", NODES, EDGES + 1
    ),
    "a target of orders that is not there": graph("so2_conv_backward", "target", 1, NODES),
    "a place of orders that is not there": graph("so2_conv_backward", "back_order", 1, EDGES),
    "a row to gather that is not there": graph("gather_sum", "index", 1, NODES),
    "a value to attend to that is not there": graph("segment_attention_backward", "source", 1, -1),
    "a set of weights that is not there": graph("symmetric_contraction", "index", 1, 2),
    "more components than a map may have": partial(linear, [0, 1, 0, 1, 1024, 0]),
    "outputs of a map that overlap": partial(linear, [0, 1, 0, 2, 1, 0], [1, 1, 1, 2, 1, 2]),
    "outputs of a map of other copies": partial(linear, [0, 1, 0, 2, 1, 0], [1, 1, 0, 3, 1, 2]),
    "outputs of a map of other components": partial(linear, [0, 1, 0, 3, 1, 0], [1, 1, 0, 1, 3, 3]),
    "inputs of a map that overlap": partial(linear, [0, 2, 0, 1, 1, 0], [1, 2, 1, 1, 1, 2], by="x"),
    "matrices of a map that are shared": partial(
        linear, [0, 1, 0, 1, 1, 0], [1, 1, 1, 1, 1, 0], by="weight"
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
