"""What tables and operands must be, and errors that come before any memory is touched."""

import pytest
import torch

from equigeo.ops import (
    Path,
    PathTable,
    Segment,
    channelwise_conv,
    channelwise_product,
    kernels_info,
    radial_conv,
)
from tests.ops.path_tables import channelwise_path

pytestmark = pytest.mark.kernels

compiled = pytest.mark.skipif(
    kernels_info()["cpu"] is None, reason="the reference trusts its table"
)
EYE = torch.eye(3, dtype=torch.float64)[..., None]
DOT = channelwise_path(x=0, y=0, out=0, weight=0, mul=2, mul2=1, coefficients=EYE)
TABLE = PathTable.from_paths([DOT], dims=(6, 3, 2, 2), by_output=True)


def rows(table=TABLE, count=4, dtype=torch.float32):
    dims = (table.dim_x, table.dim_y, table.dim_weight)
    return [torch.randn(count, dim, dtype=dtype) for dim in dims]


def changed(column, value, table=TABLE, path=0):
    paths = table.paths.clone()
    paths[path, column] = value
    dims = (table.dim_x, table.dim_y, table.dim_weight, table.dim_out)
    return PathTable(paths, table.entries, table.values, *dims, table.ir_mul)


def test_a_table_lists_the_coefficients_that_are_not_zero():
    assert TABLE.entries.tolist() == [[0, 0, 0], [1, 1, 0], [2, 2, 0]]
    assert TABLE.values.tolist() == [1, 1, 1]
    assert TABLE.paths.tolist() == [[0, 2, 3, 3, 1, 0, 1, 3, 3, 1, 0, 2, 1, 1, 1, 0, 0, 3]]


@compiled
def test_segments_of_two_layouts_are_refused():
    blocks = Segment.block(0, 2, 3, ir_mul=True), Segment.block(0, 2, 3), Segment.block(0, 2, 1)
    table = PathTable.from_paths([Path(*blocks, None, EYE)], dims=(6, 6, 0, 2))
    with pytest.raises(RuntimeError, match="path 0: all segments must be blocks of the layout ir_"):
        channelwise_product(torch.zeros(4, 6), torch.zeros(4, 6), None, table)


@compiled
@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (0, 1, "path 0 leaves its rows"),
        (0, -1, "path 0 leaves its rows"),
        (1, 3, "path 0 leaves its rows"),
        (1, 0, "path 0 leaves its rows"),
        (1, 2**62, "path 0 leaves its rows"),
        (2, 2, "first inputs have 1 to 13 components"),
        (2, 15, "first inputs have 1 to 13 components"),
        (3, 4, "path 0 leaves its rows"),
        (3, 2, "path 0: all segments must be blocks of the layout mul_ir"),
        (4, 2, "path 0 leaves its rows"),
        (5, 1, "path 0 leaves its rows"),
        (6, 2, "path 0 leaves its rows"),
        (7, 1, "a component that does not exist"),
        (10, 1, "path 0 leaves its rows"),
        (11, 1, "path 0 must have as many copies in the output, got 1, as in the first input, 2"),
        (12, 0, "path 0 leaves its rows"),
        (15, 1, "path 0 leaves its rows"),
        (16, -1, "coefficients that do not exist"),
        (17, 4, "coefficients that do not exist"),
    ],
)
def test_a_table_that_leaves_its_rows_is_refused(column, value, message):
    with pytest.raises(RuntimeError, match=message):
        channelwise_product(*rows(), changed(column, value))


@compiled
def test_segments_of_the_output_are_sorted_and_apart():
    two = [DOT, channelwise_path(x=0, y=0, out=2, weight=2, mul=2, mul2=1, coefficients=EYE)]
    table = PathTable.from_paths(two, dims=(6, 3, 4, 4), by_output=True)
    channelwise_product(*rows(table), table)
    overlapping = changed(10, 1, table, path=1)
    unsorted = changed(10, 0, changed(10, 2, table, path=0), path=1)
    for wrong in (overlapping, unsorted):
        with pytest.raises(RuntimeError, match="sorted by their segments of the output"):
            channelwise_product(*rows(wrong), wrong)


def graph():
    """Two sources, two edges, one target."""
    forward = (torch.tensor([0, 1]), torch.tensor([0, 2]), torch.arange(2))
    return [*forward, torch.zeros(2, dtype=torch.int64), torch.arange(2), torch.arange(3)]


@pytest.mark.parametrize("name", ["order", "target", "back_order"])
@pytest.mark.parametrize("op", ["weights", "radial layer"])
def test_lists_of_another_length_are_named(name, op):
    names = ("source", "ptr", "order", "target", "back_order", "back_ptr")
    lists = dict(zip(names, graph(), strict=True))
    lists[name] = lists[name][:1]
    x, y, weight = rows()
    with pytest.raises(ValueError, match=f"{name} must have 2 entries to fit source, got 1"):
        OPS[op](x[:2], y[:2], weight[:2], tuple(lists.values()))


OPS = {
    "weights": lambda x, y, weight, graph: channelwise_conv(x, y, weight, graph, TABLE),
    "radial layer": lambda x, y, weight, graph: radial_conv(
        x, y, torch.ones(2, 3), torch.ones(3, 2), graph, TABLE
    ),
}


@compiled
@pytest.mark.parametrize("op", [*OPS])
@pytest.mark.parametrize(
    ("place", "value"),
    [(0, [0, 2]), (0, [-1, 0]), (2, [0, 2]), (2, [0, -1])],
    ids=["source beyond", "negative source", "row beyond", "negative row"],
)
def test_indices_out_of_range_are_refused(op, place, value):
    x, y, weight = rows(count=2)
    wrong = graph()
    wrong[place] = torch.tensor(value)
    with pytest.raises(RuntimeError, match="an index is out of range"):
        OPS[op](x, y, weight, tuple(wrong))


@compiled
@pytest.mark.parametrize(
    ("place", "value"),
    [(3, [0, 1]), (3, [0, -1]), (4, [0, 2]), (4, [-1, 0])],
    ids=["target beyond", "negative target", "position beyond", "negative position"],
)
def test_indices_of_the_gradient_out_of_range_are_refused(place, value):
    x, y, weight = (operand.requires_grad_() for operand in rows(count=2))
    wrong = graph()
    wrong[place] = torch.tensor(value)
    out = channelwise_conv(x, y, weight, tuple(wrong), TABLE)
    with pytest.raises(RuntimeError, match="an index is out of range"):
        out.sum().backward()


@compiled
@pytest.mark.parametrize("ptr", [[0, 1], [1, 2], [0, 3], [2, 0]], ids=str)
def test_offsets_that_do_not_cover_the_edges_are_refused(ptr):
    wrong = graph()
    wrong[1] = torch.tensor(ptr)
    with pytest.raises(RuntimeError, match="ptr must start at 0, never fall and end at 2"):
        channelwise_conv(*rows(count=2), tuple(wrong), TABLE)


def test_a_graph_is_six_index_tensors():
    x, y, weight = rows(count=2)
    with pytest.raises(ValueError, match="graph must hold source, ptr, order"):
        channelwise_conv(x, y, weight, tuple(graph()[:5]), TABLE)
    wrong = graph()
    wrong[0] = wrong[0].float()
    with pytest.raises(TypeError, match="source must be int64"):
        channelwise_conv(x, y, weight, tuple(wrong), TABLE)


def test_a_radial_layer_without_hidden_numbers_gives_weights_of_zero():
    x, y, _ = rows(count=2)
    hidden, radial = torch.empty(2, 0), torch.empty(0, 2)
    assert torch.equal(radial_conv(x, y, hidden, radial, tuple(graph()), TABLE), torch.zeros(1, 2))


def measured(op, x, y, weight, *rest):
    """A product and two orders of its gradients, and the bytes that they take from PyTorch."""
    with torch.profiler.profile(profile_memory=True) as profile:
        out = op(x, y, weight, *rest)
        (slope,) = torch.autograd.grad(out.square().sum(), y, create_graph=True)
        results = [out, slope, *torch.autograd.grad(slope.square().sum(), [x, y])]
    return sum(max(event.self_cpu_memory_usage, 0) for event in profile.events()), results


@compiled
@pytest.mark.parametrize("op", [channelwise_product, channelwise_conv])
def test_the_same_weights_for_all_rows_are_not_copied(op):
    x, y, weight = rows(count=2)
    x, y = x.requires_grad_(), y.requires_grad_()
    rest = (TABLE,) if op is channelwise_product else (graph(), TABLE)
    expanded = weight[:1].expand(2, 2)
    size, results = measured(op, x, y, expanded, *rest)
    same_size, same = measured(op, x, y, expanded.contiguous(), *rest)
    assert size == same_size
    assert all(map(torch.equal, results, same))


def test_a_table_that_is_written_to_is_read_again():
    table = PathTable(
        TABLE.paths, TABLE.entries, TABLE.values.float(), 6, 3, 2, 2, ir_mul=TABLE.ir_mul
    )
    x, y, weight = rows()
    before = channelwise_product(x, y, weight, table)
    table.values.mul_(2)
    torch.testing.assert_close(channelwise_product(x, y, weight, table), 2 * before)
    table.values.div_(2)
    assert torch.equal(channelwise_product(x, y, weight, table), before)


def test_more_tables_than_plans_are_kept():
    x, y, weight = rows(dtype=torch.float64)
    for turn in range(2):
        for n in range(1, 41):
            values = torch.full_like(TABLE.values, float(n))
            table = PathTable(TABLE.paths, TABLE.entries, values, 6, 3, 2, 2, TABLE.ir_mul)
            expected = n * channelwise_product(x, y, weight, TABLE)
            got = channelwise_product(x, y, weight, table)
            torch.testing.assert_close(got, expected, msg=f"turn {turn}, table {n}")
