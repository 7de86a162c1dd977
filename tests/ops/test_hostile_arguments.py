"""Arguments that no layer gives: kernels refuse them, or have nothing to do, and do so at once."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from equigeo.graphs import EdgeIndex
from equigeo.ops import Path, PathTable, Segment, kernels_info
from tests.fuzz.run_worker import fault_of
from tests.ops.path_tables import channelwise_path
from tests.ops.small_calls import (
    DIMS,
    DOT,
    EDGES,
    LINEAR,
    MIXED,
    NODES,
    PATHS,
    VECTOR,
    VECTORS,
    arguments_of,
    at,
    call,
    ones,
)
from tests.ops.trapped_calls import paths

pytestmark = pytest.mark.kernels
compiled = pytest.mark.skipif(kernels_info()["cpu"] is None, reason="kernels check this")
FAR = [2**31, 2**40, 2**61 + 2**20, 2**62 - 1, 2**62, 2**63 - 1]
CONNECTED = ("copywise_product", "fully_connected_product")
GRAPH_GRADIENTS = (
    "channelwise_conv_backward",
    "channelwise_conv_double_backward",
    "spline_conv_backward",
    "segment_attention_backward",
    "attention_conv_backward",
    "so2_conv_backward",
)
every_product = pytest.mark.parametrize("product", PATHS)
Refusal = tuple[str, dict[str, Any], str]
"""An op, changes of its arguments and a part of the message."""


@contextmanager
def refused(message: str) -> Iterator[None]:
    """An error in a sentence: no function and no file of the kernels."""
    with pytest.raises(RuntimeError, match=message) as caught:
        yield
    assert fault_of(str(caught.value)) == ""


def tensors(table: PathTable) -> dict[str, Tensor]:
    values = table.values.float()
    return {"paths": table.paths, "entries": table.entries, "values": values}


def refusals_of_paths() -> Iterator[Refusal]:
    """Yield numbers of a path that lead out of the arrays, or contradict one another."""
    leaves = "path 0 leaves its rows"
    for column, value, message in (
        (0, 1, leaves), (0, -1, leaves), (1, 3, leaves), (1, 0, leaves), (1, 2**62, leaves),
        (2, 2, "first inputs have 1 to 13 components"),
        (2, 15, "first inputs have 1 to 13 components"),
        (3, 4, leaves), (3, 2, "path 0: all segments must be blocks of the layout mul_ir"),
        (4, 2, leaves), (5, 1, leaves), (6, 2, leaves), (7, 1, "a component that does not exist"),
        (10, 1, leaves),
        (11, 1, "path 0 must have as many copies in the output, got 1, as in the first input, 2"),
        (12, 0, leaves), (15, 1, leaves),
        (16, -1, "coefficients that do not exist"), (17, 4, "coefficients that do not exist"),
    ):  # fmt: skip
        yield "channelwise_product", {"paths": at((0, column), value)}, message
    leaving = [(0, 1), (0, -1), (1, 3), (1, 0), (1, 2**62), (3, 4), (4, 3), (4, 2**62), (5, 1)]
    leaving += [(6, 2), (10, 2), (10, -1), (13, 0), (15, 1), (15, 2**62)]
    for op in CONNECTED:
        for place in leaving:
            for of in (op, f"{op}_backward"):
                yield of, {"paths": at((0, place[0]), place[1])}, "path 0"
        for column, value, message in (
            (2, 2, "a component that does not exist|1 to 13 components"),
            (7, 1, "a component that does not exist"),
            (16, -1, "coefficients that do not exist"),
            (17, 4, "coefficients that do not exist"),
            (15, -1, "must have weights as all paths, or none"),
        ):
            yield op, {"paths": at((0, column), value)}, message
    message = "as many copies as pairs of copies, or as each input"
    yield "copywise_product", {"paths": at((0, 11), 1)}, message
    for offset in (-(2**63), -1, 2**63 - 1):
        for op in ("channelwise_product", "copywise_product"):
            yield op, {"paths": at((0, 0), offset)}, leaves


def refusals_of_tables() -> Iterator[Refusal]:
    """Yield tables of paths, each of which is right by itself, that do not go together."""
    op = "channelwise_product"
    message = "path 1 must have coefficients behind those of the path before it"
    for first in (0, 20):
        yield op, paths([3, 3], 6, {(1, 16): first}), message
    message = "sorted by their segments of the output"
    yield op, paths([3, 3], 6, {(1, 10): 3}), message
    yield op, paths([3, 3], 6, {(0, 10): 6, (1, 10): 0}), message
    blocks = Segment.block(0, 2, 3, ir_mul=True), VECTORS, Segment.block(0, 2, 1)
    table = PathTable.from_paths([Path(*blocks, None, DOT)], (6, 6, 0, 2))
    message = "path 0: all segments must be blocks of the layout ir_"
    given = {**tensors(table), "y": torch.zeros(EDGES, 6), "weight": None, "ir_mul": True}
    yield op, given, message
    twice = Path(VECTORS, VECTOR, Segment.block(1, 1, 1), 0, DOT)
    table = PathTable.from_paths([MIXED, twice], DIMS)
    message = "paths must not overlap in the weights"
    yield "fully_connected_product", tensors(table), message


def refusals_of_indices() -> Iterator[Refusal]:
    """Yield nodes, edges and rows that are not there."""
    outside = "an index is out of range"
    ends = {"source": NODES, "target": NODES, "order": EDGES, "back_order": EDGES, "first": 2}
    for op, name in (
        ("channelwise_conv", "source"), ("channelwise_conv", "order"), ("radial_conv", "source"),
        ("radial_conv", "order"), ("channelwise_conv_backward", "target"),
        ("channelwise_conv_backward", "source"), ("channelwise_conv_backward", "order"),
        ("channelwise_conv_double_backward", "back_order"),
        ("spline_conv", "source"), ("spline_conv", "order"), ("spline_conv", "first"),
        ("spline_conv_backward", "source"), ("spline_conv_backward", "target"),
        ("spline_conv_backward", "order"), ("spline_conv_backward", "first"),
    ):  # fmt: skip
        yield op, {name: at(1, ends[name])}, outside
        yield op, {name: at(1, -1)}, outside
    for number in (NODES, -1, 10**15):
        yield "gather_sum", {"index": at(1, number)}, outside
    yield "attention_conv", {"source": lambda source: source + NODES}, outside


def refusals_of_graphs() -> Iterator[Refusal]:
    """Yield offsets that do not cover the edges, and numbers of rows that do not fit them."""
    offsets = f"ptr must start at 0, never fall and end at {EDGES}"
    for op in ("channelwise_conv", "gather_sum"):
        for place, number in ((0, 1), (NODES, EDGES - 1), (NODES, EDGES + 1), (1, EDGES)):
            yield op, {"ptr": at(place, number)}, offsets
    either = "out of range|must start at 0, never fall and end"
    for number in (-1, 10**12, -(2**63)):
        for name in ("source", "target", "back_order", "ptr", "back_ptr"):
            yield "segment_attention_backward", {name: at(2, number)}, either
        for name in ("source", "ptr"):
            yield "segment_attention", {name: at(2, number)}, either
    none = {"values": torch.ones(0, 2, 5), "back_ptr": torch.zeros(1, dtype=torch.int64)}
    yield "segment_attention", none, "no edges where there is no source"
    message = "logits must have size 4 along axis 0, got 3"
    yield "segment_attention", {"logits": torch.ones(3, 2)}, message
    for rows in (3, 5):
        message = f"y must have a row for each of 4 edges, got {rows}"
        given = {"y": torch.ones(rows, 3), "weight": torch.ones(rows, 2)}
        for suffix in ("", "_backward", "_double_backward"):
            yield f"channelwise_conv{suffix}", given, message
        yield "radial_conv", {"y": given["y"], "hidden": torch.ones(rows, 3)}, message
        edges = {"position": torch.ones(rows), "first": torch.zeros(rows, dtype=torch.int64)}
        for suffix in ("", "_backward"):
            yield f"spline_conv{suffix}", {"y": given["y"], **edges}, message


def refusals_of_lists() -> Iterator[Refusal]:
    """Yield edges without a target, and lists of edges of other lengths."""
    nowhere = {"ptr": torch.zeros(1, dtype=torch.int64)}
    for op in ("channelwise_conv", "segment_attention", "attention_conv", "so2_conv"):
        yield op, nowhere, "no edges where there is no source or no target"
    yield "so2_conv", {"order": lambda order: order[1:]}, "order must have size 4"
    for op in GRAPH_GRADIENTS:
        for name in ("order", "target", "back_order", "back_ptr"):
            if name in arguments_of(op):  # attention needs no order
                yield op, {name: lambda numbers: numbers[1:]}, f"{name} must have size"


def refusals_of_splines() -> Iterator[Refusal]:
    """Yield splines of no functions or too many, and coefficients that do not fit them."""
    for op in ("spline_conv", "spline_conv_backward"):
        for functions in (0, 17):
            given = {"basis": torch.ones(functions + 1, functions)}
            given["coefficients"] = torch.ones(2, 20, 2)
            yield op, given, f"basis must have 1 to 16 functions, got {functions}"
        few = "coefficients must have a row for each function"
        for rows in (0, 1):
            yield op, {"coefficients": torch.ones(2, rows, 2)}, few
        yield op, {"coefficients": torch.ones(2, 3, 1)}, "path 0 leaves its rows"
        yield op, {"coefficients": torch.ones(3)}, r"coefficients must be \(2, rows, weights\)"
        size = "coefficients must have size 2 along axis 0, got 1"
        yield op, {"coefficients": torch.ones(1, 3, 2)}, size
        yield op, {"coefficients": torch.Tensor.double}, "coefficients must be Float, got Double"
        yield op, {"basis": torch.ones(2)}, r"basis must be \(functions \+ 1, functions\)"
        yield op, {"basis": torch.ones(2, 2)}, "basis must have size 3 along axis 0, got 2"
        yield op, {"position": torch.ones(3)}, "position must have size 4 along axis 0, got 3"
        yield op, {"first": torch.zeros(3, dtype=torch.int64)}, "first must have size 4 along axis"
        for number in FAR:
            yield op, {"first": at(1, number)}, "an index is out of range"


def refusals_of_blocks() -> Iterator[Refusal]:
    """Yield linear maps by blocks that leave their rows, or add to parts of a segment."""
    leaves = "block 2 leaves its rows"
    for column, value, message in (
        (0, -1, leaves), (0, LINEAR.dim - 14, leaves), (1, 0, leaves), (1, 2**61, leaves),
        (2, LINEAR.dim_out - 5, leaves),
        (2, 18, "blocks must add to the same segment or to others"), (3, 2**62, leaves),
        (4, 2**62, "block 2 has too many components"), (4, 0, leaves),
        (5, LINEAR.weights - 9, leaves), (5, -1, leaves),
    ):  # fmt: skip
        for op in ("block_linear", "block_linear_backward"):
            yield op, {"blocks": at((2, column), value)}, message
    message = "blocks must not overlap in the weights"
    yield "block_linear_backward", {"blocks": at((1, 5), 0)}, message


def refusals_of_polynomials() -> Iterator[Refusal]:
    """Yield tables of polynomials, and lists of their sets, that lead out of the arrays."""
    op, outside = "symmetric_contraction", "an index is out of range"
    for number in (-1, 2, 2**40):
        yield op, {"index": at(1, number)}, outside
    for name, place, number, message in (
        ("products", (0, 0), 4, "product 0 is not one of nodes before it"),
        ("products", (0, 1), -1, "product 0 is not one of nodes before it"),
        ("polynomials", (0, 0), 2, "polynomial 0 has a weight that does not exist"),
        ("polynomials", (2, 1), 3, "lead to one that exists"),
        ("polynomials", (0, 1), 1, "must be sorted by component"),
        ("polynomials", (0, 2), -1, "polynomial 0 has groups that do not exist"),
        ("polynomials", (2, 3), 99, "polynomial 2 has groups that do not exist"),
        ("groups", (0, 0), 99, "group 0 has terms or a node that do not exist"),
        ("groups", (0, 1), -1, "group 0 has terms or a node that do not exist"),
        ("groups", (0, 2), 99, "group 0 has terms or a node that do not exist"),
        ("nodes", 0, 99, "a term has a node that does not exist"),
        ("nodes", 0, -1, "a term has a node that does not exist"),
    ):
        yield op, {name: at(place, number)}, message
    yield op, {"dims_out": [2]}, "lead to one that exists"
    yield op, {"dims_in": [4, -1]}, "dims_in must hold positive 16-bit numbers, got -1"
    yield op, {"dims_out": [0, 3]}, "dims_out must hold positive 16-bit numbers, got 0"
    yield op, {"values": lambda values: values[1:]}, "values must have size"
    for ptr in ([0, 1, 3], [1, 1, 2], [0, 3, 2], [0, 1, 1]):
        message = "ptr must start at 0, never fall and end at 2"
        yield f"{op}_backward", {"ptr": torch.tensor(ptr)}, message
    for order in ([0, 2], [-1, 0]):
        yield f"{op}_backward", {"order": torch.tensor(order)}, outside


def refusals_of_sizes() -> Iterator[Refusal]:
    """Yield sizes whose products overflow, or whose results fit nowhere."""
    for product in PATHS:
        for dim_out in FAR:
            message = f"dim_out must be from 0 to 2147483647, got {dim_out}"
            yield product, {"dim_out": dim_out}, message
        many = ones(x=(2**14, 6), y=(2**14, 3), weight=(2**14, 2)) | {"dim_out": 2**31 - 1}
        yield product, many, "does not fit into memory"
        yield product, {"y": torch.ones(EDGES, 0)}, "path 0 leaves its rows"
    far = torch.ones(1, 6).expand(2**40, 6)
    message = "x has 6597069766656 elements, whose copy does not fit into memory"
    yield "copywise_product", {"x": far, "y": far[:, :3], "weight": far[:, :2]}, message
    yield "copywise_product", {"y": torch.Tensor.half}, re.escape("y must be Float, got Half")
    grid = {f"legendre_{n}": torch.ones(0, 4, 2**40) for n in "xyz"}
    grid |= {f"trig_{n}": torch.ones(0, 3, 2**40) for n in "xyz"}
    yield "grid_product", grid, "tables must have a summand"
    # four times which is zero in 64 bits
    contraction = {"x": torch.ones(2, 0), "weight": torch.ones(1, 0, 2**62)}
    message = "the channels of weight must be from 0 to 2147483647"
    yield "symmetric_contraction", contraction, message
    for degrees in ([], [2, 1], [-1], [5]):
        yield "spherical_harmonics", {"degrees": degrees}, "degree"


REFUSALS = [
    *refusals_of_paths(), *refusals_of_tables(), *refusals_of_indices(), *refusals_of_graphs(),
    *refusals_of_lists(), *refusals_of_splines(), *refusals_of_blocks(), *refusals_of_polynomials(),
    *refusals_of_sizes(),
]  # fmt: skip


@compiled
@pytest.mark.parametrize(("op", "changes", "message"), REFUSALS)
def test_arguments_that_lead_out_of_memory_are_refused(op, changes, message):
    call(op)  # which is right without the changes
    with refused(message):
        call(op, **changes)


@compiled
@pytest.mark.parametrize(
    ("change", "where"), [({15: 0}, "weights"), ({15: 1}, "weights"), ({0: 1, 1: 1}, "first input")]
)
def test_gradients_of_numbers_that_paths_share_are_refused(change, where):
    shared = {(0, 1): 1, (0, 11): 1, (1, 11): 1, (1, 10): 3} if 1 in change else {}
    given = paths([3, 3], 6, shared | {(1, column): value for column, value in change.items()})
    call("channelwise_product", **given)
    del given["dim_out"]
    with refused(f"paths must not overlap in the {where}"):
        call("channelwise_product_backward", grad=torch.ones(EDGES, 12), **given)


def test_overlapping_weights_of_blocks_are_no_error_of_values():
    call("block_linear", blocks=at((1, 5), 0))


@compiled
@pytest.mark.parametrize("product", ["channelwise_product", "copywise_product"])
def test_rows_without_numbers_are_no_work_however_many(product):
    many = torch.ones(2**40, 0)
    path = Path(VECTORS, VECTOR, VECTORS, None, torch.ones(3, 3, 3))
    given = tensors(PathTable.from_paths([path], (6, 3, 0, 6), by_output=True))
    assert call(product, x=many, y=many, weight=None, dim_out=0, **given).shape == (2**40, 0)


@compiled
@pytest.mark.parametrize("rows", [0, 3])
def test_columns_of_tensors_without_rows_are_limited(rows):
    given = without_edges(rows) | {"x": torch.ones(0, 6), "y": torch.ones(0, 2**62)}
    given |= {"weight": torch.ones(0, 2), "paths": at((0, 6), 2**60)}  # copies of y
    if rows == 0:
        assert call("channelwise_conv", **given).shape == (0, 2)
    else:
        with refused("the columns of y must be from 0 to 2147483647"):
            call("channelwise_conv", **given)


def without_edges(targets: int, sources: int = 0) -> dict[str, Tensor]:
    graph = EdgeIndex.from_edges(torch.zeros(2, 0, dtype=torch.int64), sources, targets)
    names = ("source", "ptr", "order", "target", "back_order", "back_ptr")
    return {name: getattr(graph, name) for name in names}


@compiled
def test_paths_that_need_more_memory_than_there_is_are_refused():
    y = 2**31 - 1
    path = channelwise_path(0, 0, 0, None, 1, y // 3, torch.ones(13, 3, 625))
    given = tensors(PathTable.from_paths([path], (13, y, 0, 625), by_output=True))
    given |= {"x": torch.ones(0, 13), "y": torch.ones(0, y), "weight": None}
    with refused("the paths take too much memory|out of memory"):
        call("channelwise_conv", **without_edges(3), **given, dim_out=625)


@compiled
def test_heads_without_channels_are_no_work_however_many():
    graph = without_edges(3, sources=2)
    del graph["order"]
    given = {"values": torch.ones(2, 2**61, 0), "logits": torch.ones(0, 2**61)}
    out, attention = call("segment_attention", **given, **graph)
    assert out.shape == (3, 2**61, 0)
    assert attention.shape == (0, 2**61)


def on_meta(op: str) -> dict[str, Any]:
    given = arguments_of(op)
    return {k: x.to("meta") if isinstance(x, Tensor) else x for k, x in given.items()}


@pytest.mark.parametrize("dim_out", [-1, -(2**63), 2**62])
def test_a_fake_refuses_rows_that_no_tensor_has(dim_out):
    with pytest.raises(ValueError, match="columns of the output must be from 0 to 2147483647"):
        call("block_linear", **on_meta("block_linear") | {"dim_out": dim_out})


def test_a_fake_refuses_degrees_beyond_its_table():
    with pytest.raises(ValueError, match="degrees must be from 0 to 4, got"):
        call(
            "spherical_harmonics", **on_meta("spherical_harmonics") | {"degrees": [0] + [2**61] * 2}
        )
