"""Arguments that no layer gives: kernels refuse them, or have nothing to do, and do so at once."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor

from equigeo.graphs import EdgeIndex
from equigeo.ops import Path, PathTable, kernels_info
from tests.fuzz.run_worker import fault_of
from tests.ops.path_tables import channelwise_path

pytestmark = [
    pytest.mark.kernels,
    pytest.mark.skipif(kernels_info()["cpu"] is None, reason="kernels check this"),
]
OPS = torch.ops.equigeo
FAR = [2**31, 2**40, 2**61 + 2**20, 2**62 - 1, 2**62, 2**63 - 1]

VECTORS = channelwise_path(0, 0, 0, None, 2, 1, torch.ones(3, 3, 3))
TABLE = PathTable.from_paths([VECTORS], (6, 3, 0, 6), by_output=True)
PRODUCTS = {
    "channelwise": lambda x, y, dim_out: OPS.channelwise_product(
        x, y, None, *tensors(TABLE), dim_out, False
    ),
    "copywise": lambda x, y, dim_out: OPS.copywise_product(x, y, None, *tensors(TABLE), dim_out),
    "fully connected": lambda x, y, dim_out: OPS.fully_connected_product(
        x, y, torch.ones(len(x), 4), *tensors(weighted()), dim_out
    ),
}
every_product = pytest.mark.parametrize("product", PRODUCTS.values(), ids=PRODUCTS)


def tensors(table: PathTable) -> tuple[Tensor, Tensor, Tensor]:
    return table.paths, table.entries, table.values.float()


def weighted() -> PathTable:
    path = Path(VECTORS.x, VECTORS.y, VECTORS.out, 0, VECTORS.coefficients)
    return PathTable.from_paths([path], (6, 3, 4, 6))


@contextmanager
def refused(message: str) -> Iterator[None]:
    """An error in a sentence: no function and no file of the kernels."""
    with pytest.raises(RuntimeError, match=message) as caught:
        yield
    assert fault_of(str(caught.value)) == ""


@every_product
@pytest.mark.parametrize("dim_out", FAR)
def test_a_row_of_the_output_that_fits_nowhere_is_refused(product, dim_out):
    with refused(f"dim_out must be from 0 to 2147483647, got {dim_out}"):
        product(torch.ones(4, 6), torch.ones(4, 3), dim_out)
    with refused("does not fit into memory"):
        product(torch.ones(2**14, 6), torch.ones(2**14, 3), 2**31 - 1)


@pytest.mark.parametrize("offset", [-(2**63), -1, 2**63 - 1])
def test_a_segment_that_begins_nowhere_is_refused(offset):
    paths, *coefficients = tensors(TABLE)
    paths = paths.clone()
    paths[0, 0] = offset
    x, y = torch.ones(4, 6), torch.ones(4, 3)
    with refused("path 0 leaves its rows"):
        OPS.channelwise_product(x, y, None, paths, *coefficients, 6, False)
    with refused("path 0 leaves its rows"):
        OPS.copywise_product(x, y, None, paths, *coefficients, 6)


@every_product
def test_rows_without_numbers_are_no_work_however_many(product):
    many = torch.ones(2**40, 0)
    with refused("path 0 leaves its rows"):
        product(torch.ones(4, 6), torch.ones(4, 0), 6)
    if product is not PRODUCTS["fully connected"]:  # which has weights
        assert product(many, many, 0).shape == (2**40, 0)


@pytest.mark.parametrize("rows", [0, 3])
def test_columns_of_tensors_without_rows_are_limited(rows):
    graph = EdgeIndex.from_edges(torch.zeros(2, 0, dtype=torch.int64), 0, rows)
    indices = [graph.source, graph.ptr, graph.order, graph.target, graph.back_order, graph.back_ptr]
    paths = TABLE.paths.clone()
    paths[0, 6] = 2**60  # copies of the second input
    x, y = torch.ones(0, 6), torch.ones(0, 2**62)
    arguments = [x, y, None, *indices, paths, TABLE.entries, TABLE.values.float(), 6, False]
    if rows == 0:
        assert OPS.channelwise_conv(*arguments).shape == (0, 6)
    else:
        with refused("the columns of y must be from 0 to 2147483647"):
            OPS.channelwise_conv(*arguments)


@pytest.mark.parametrize("rows", [3, 5])
def test_convolutions_need_a_row_for_each_edge(rows):
    graph = EdgeIndex.from_edges(torch.tensor([[0, 1, 0, 1], [0, 0, 1, 1]]), 2, 2)
    indices = [graph.source, graph.ptr, graph.order, graph.target, graph.back_order, graph.back_ptr]
    x, y, grad = torch.ones(2, 6), torch.ones(rows, 3), torch.ones(2, 6)
    given = [*indices, *tensors(TABLE)]
    message = f"y must have a row for each of 4 edges, got {rows}"
    with refused(message):
        OPS.channelwise_conv(x, y, None, *given, 6, False)
    with refused(message):
        OPS.channelwise_conv_backward(grad, x, y, None, *given, False)
    with refused(message):
        OPS.channelwise_conv_double_backward(
            grad, x, y, None, x, y, None, *given, False, True, True, True, False
        )
    with refused(message):
        OPS.radial_conv(x, y, torch.ones(rows, 2), torch.ones(2, 0), *given, 6, False)


def test_paths_that_need_more_memory_than_there_is_are_refused():
    graph = EdgeIndex.from_edges(torch.zeros(2, 0, dtype=torch.int64), 0, 3)
    indices = [graph.source, graph.ptr, graph.order, graph.target, graph.back_order, graph.back_ptr]
    y = 2**31 - 1
    path = channelwise_path(0, 0, 0, None, 1, y // 3, torch.ones(13, 3, 625))
    table = PathTable.from_paths([path], (13, y, 0, 625), by_output=True)
    with refused("the paths take too much memory|out of memory"):
        OPS.channelwise_conv(
            torch.ones(0, 13), torch.ones(0, y), None, *indices, *tensors(table), 625, False
        )


def test_heads_without_channels_are_no_work_however_many():
    graph = EdgeIndex.from_edges(torch.zeros(2, 0, dtype=torch.int64), 2, 3)
    indices = [graph.source, graph.ptr, graph.target, graph.back_order, graph.back_ptr]
    out, attention = OPS.segment_attention(torch.ones(2, 2**61, 0), torch.ones(0, 2**61), *indices)
    assert out.shape == (3, 2**61, 0)
    assert attention.shape == (0, 2**61)


def test_tables_of_a_grid_without_summands_are_refused():
    def tables(points: int) -> list[Tensor]:
        return [torch.ones(0, 4, points), torch.ones(0, 3, points)] * 3

    with refused("tables must have a summand"):
        OPS.grid_product(torch.ones(2, 4), torch.ones(2, 4), *tables(2**40))


def test_channels_of_a_contraction_do_not_overflow():
    empty = torch.zeros(0, 2, dtype=torch.int64)
    table = [empty, empty.new_zeros(0, 4), empty.new_zeros(0, 3), empty.new_zeros(0)]
    weight = torch.ones(1, 0, 2**62)  # four times which is zero in 64 bits
    with refused("the channels of weight must be from 0 to 2147483647"):
        OPS.symmetric_contraction(
            torch.ones(5, 0),
            weight,
            torch.zeros(5, dtype=torch.int64),
            *table,
            torch.zeros(0),
            [],
            [4],
            [4],
        )


def test_a_copy_that_fits_nowhere_is_refused():
    x = torch.ones(1, 6).expand(2**40, 6)
    with refused("x has 6597069766656 elements, whose copy does not fit into memory"):
        PRODUCTS["copywise"](x, torch.ones(1, 3).expand(2**40, 3), 6)


def two_paths(change: dict[int, int]) -> PathTable:
    """Two products of a vector with another; columns of the second path changed."""
    paths = [channelwise_path(0, 0, 6 * p, 2 * p, 2, 1, torch.ones(3, 3, 3)) for p in range(2)]
    table = PathTable.from_paths(paths, (6, 3, 4, 12), by_output=True)
    for column, value in change.items():
        table.paths[1, column] = value
    return table


@pytest.mark.parametrize("first", [0, 20])
def test_coefficients_of_one_path_alone(first):
    table = two_paths({16: first})
    with refused("path 1 must have coefficients behind those of the path before it"):
        OPS.channelwise_product(
            torch.ones(4, 6), torch.ones(4, 3), torch.ones(4, 4), *tensors(table), 12, False
        )


@pytest.mark.parametrize(
    ("change", "where"), [({15: 0}, "weights"), ({15: 1}, "weights"), ({0: 1, 1: 1}, "first input")]
)
def test_gradients_of_numbers_that_paths_share_are_refused(change, where):
    table = two_paths(change)
    if 1 in change:
        table.paths[:, [1, 11]] = 1
        table.paths[1, 10] = 3
    x, y, weight = torch.ones(4, 6), torch.ones(4, 3), torch.ones(4, 4)
    OPS.channelwise_product(x, y, weight, *tensors(table), 12, False)
    with refused(f"paths must not overlap in the {where}"):
        OPS.channelwise_product_backward(torch.ones(4, 12), x, y, weight, *tensors(table), False)


def test_a_dtype_is_named():
    with refused(re.escape("y must be Float, got Half")):
        PRODUCTS["copywise"](torch.ones(4, 6), torch.ones(4, 3).half(), 6)


@pytest.mark.parametrize("dim_out", [-1, -(2**63), 2**62])
def test_a_fake_refuses_rows_that_no_tensor_has(dim_out):
    x, weight = torch.zeros(2, 3, device="meta"), torch.zeros(1, 3, device="meta")
    blocks = torch.zeros(0, 6, dtype=torch.int64, device="meta")
    factors = torch.zeros(0, device="meta")
    with pytest.raises(ValueError, match="columns of the output must be from 0 to 2147483647"):
        torch.ops.equigeo.block_linear(x, weight, blocks, factors, dim_out, False)


def test_a_fake_refuses_degrees_beyond_its_table():
    x, table = torch.zeros(2, 3, device="meta"), torch.zeros(6, 3, 3, device="meta")
    with pytest.raises(ValueError, match="degrees must be from 0 to 2, got"):
        torch.ops.equigeo.spherical_harmonics(x, table, [0, 2**61, 2**61], True)
