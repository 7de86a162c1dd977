"""Products by tables of paths: what the op table does not say."""

import ctypes
import itertools
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from equigeo import tensor_products as tp
from equigeo.graphs import EdgeIndex
from equigeo.ops import (
    Path,
    PathTable,
    Segment,
    channelwise_conv,
    channelwise_product,
    copywise_product,
    fully_connected_product,
    kernels_info,
    radial_conv,
)
from equigeo.ops.path_table import read_paths
from equigeo.ops.runtime.declare import declared, reference_of
from equigeo.testing import tolerance
from tests.ops.op import Seen
from tests.ops.product_rows import EVERY, arrays, graph_tensors, layout_of
from tests.ops.small_calls import DIMS, GRAPH, NODES, PATHS, call
from tests.wrong_inputs import refused

pytestmark = pytest.mark.kernels

TABLE = PATHS["channelwise_product"]
PRODUCTS = (channelwise_product, copywise_product, fully_connected_product)
X, Y = Segment.block(1, mul=2, d=3), Segment.block(0, mul=2, d=3, ir_mul=True)


def rows(count=4, dtype=torch.float32):
    return [torch.randn(count, dim, dtype=dtype) for dim in DIMS[:3]]


def by_values(values):
    return PathTable(TABLE.paths, TABLE.entries, values, *DIMS, ir_mul=TABLE.ir_mul)


def path(offset: int, weight: int | None) -> Path:
    coefficients = torch.arange(9.0).view(3, 3, 1) + offset
    return Path(X, Y, Segment.block(offset, mul=2, d=1), weight, coefficients)


@pytest.mark.parametrize("weights", [(None, None), (4, 0)])
@pytest.mark.parametrize("by_output", [False, True])
def test_a_table_is_read_as_it_was_written(weights, by_output):
    paths = [path(2, weights[0]), path(0, weights[1])]
    table = PathTable.from_paths(paths, (7, 6, 8, 4), by_output=by_output)
    found = list(read_paths(table.paths, table.entries, table.values))
    for mine, theirs in zip(found, reversed(paths) if by_output else paths, strict=True):
        assert (mine.x, mine.y, mine.out) == (theirs.x, theirs.y, theirs.out)
        assert mine.weight == theirs.weight
        assert torch.equal(mine.coefficients, theirs.coefficients.double())


def test_blocks_lie_side_by_side_and_a_table_lists_coefficients_that_are_not_zero():
    assert X.index().tolist() == [[1, 2, 3], [4, 5, 6]]
    assert Y.index().tolist() == [[0, 2, 4], [1, 3, 5]]
    assert TABLE.entries.tolist() == [[0, 0, 0], [1, 1, 0], [2, 2, 0]]
    assert TABLE.values.tolist() == [1, 1, 1]
    assert TABLE.paths.tolist() == [[0, 2, 3, 3, 1, 0, 1, 3, 3, 1, 0, 2, 1, 1, 1, 0, 0, 3]]
    assert PathTable.from_paths([path(0, None)], (7, 6, 0, 2)).ir_mul  # components outside
    inside = Path(X, X, Segment.block(0, 2, 1), None, torch.ones(3, 3, 1))
    assert not PathTable.from_paths([inside], (7, 7, 0, 2)).ir_mul


def test_wrong_paths_raise():
    build, paths = PathTable.from_paths, [path(0, None), path(2, 0)]
    refused("either all paths have weights or none", build, paths, (7, 6, 4, 4))
    wrong = Path(X, Y, Segment.block(0, 2, 3), None, torch.ones(3, 3, 1))
    refused(r"must have shape \(3, 3, 3\), got \(3, 3, 1\)", build, [wrong], (7, 6, 0, 6))


@pytest.mark.parametrize("op", [copywise_product, channelwise_product])
def test_an_empty_table_gives_zero(op):
    nothing = PathTable.from_paths([], (2, 1, 0, 5))
    assert torch.equal(op(torch.ones(3, 2), torch.ones(3, 1), None, nothing), torch.zeros(3, 5))


def test_copies_meet_in_pairs_or_one_by_one():
    x, y = torch.tensor([[1.0, 2]]), torch.tensor([[10.0, 100]])
    one = torch.ones(1, 1, 1, dtype=torch.float64)
    inputs = Segment.block(0, 2, 1), Segment.block(0, 2, 1)
    pairs = Path(*inputs, Segment.block(0, 4, 1), None, one)
    matched = Path(*inputs, Segment.block(0, 2, 1), None, one)
    for path, want in ((pairs, [[10.0, 100, 20, 200]]), (matched, [[10.0, 200]])):
        table = PathTable.from_paths([path], (2, 2, 0, len(want[0])))
        assert copywise_product(x, y, None, table).tolist() == want


@pytest.mark.parametrize("op", [copywise_product, fully_connected_product])
def test_the_same_weights_for_all_rows_may_be_expanded(op):
    x, y, weight = rows()
    expanded = weight[:1].expand(4, 2).requires_grad_()
    copied = weight[:1].repeat(4, 1).requires_grad_()
    results = [op(x, y, w, PATHS[op.__name__]) for w in (expanded, copied)]
    assert torch.equal(*results)
    gradients = [
        torch.autograd.grad(out.square().sum(), w)
        for out, w in zip(results, (expanded, copied), strict=True)
    ]
    assert torch.equal(*(gradient for (gradient,) in gradients))


def test_a_radial_layer_without_hidden_numbers_gives_weights_of_zero():
    x, y, _ = rows()
    hidden, radial = torch.empty(4, 0), torch.empty(0, 2)
    out = radial_conv(x[:NODES], y, hidden, radial, tuple(graph_tensors(GRAPH)), TABLE)
    assert torch.equal(out, torch.zeros(NODES, 2))


def measured(op, x, y, weight, *rest):
    """A product and two orders of its gradients, and the bytes that they take from PyTorch."""
    with torch.profiler.profile(profile_memory=True) as profile:
        out = op(x, y, weight, *rest)
        (slope,) = torch.autograd.grad(out.square().sum(), y, create_graph=True)
        results = [out, slope, *torch.autograd.grad(slope.square().sum(), [x, y])]
    return sum(max(event.self_cpu_memory_usage, 0) for event in profile.events()), results


@pytest.mark.skipif(kernels_info()["cpu"] is None, reason="the reference may copy")
@pytest.mark.parametrize("op", [*PRODUCTS, channelwise_conv])
def test_the_same_weights_for_all_rows_are_not_copied(op):
    x, y, weight = rows()
    rest = [PATHS.get(op.__name__, TABLE)]
    if op is channelwise_conv:
        x, rest = x[:NODES], [graph_tensors(GRAPH), TABLE]
    x, y = x.requires_grad_(), y.requires_grad_()
    expanded = weight[:1].expand(4, 2)
    size, results = measured(op, x, y, expanded, *rest)
    same_size, same = measured(op, x, y, expanded.contiguous(), *rest)
    assert size == same_size
    assert all(map(torch.equal, results, same))


@pytest.mark.parametrize("op", [*PRODUCTS, channelwise_conv, radial_conv])
def test_a_pass_by_features_computes_no_gradient_of_weights(op):
    x, y, weight = (value.requires_grad_() for value in rows())
    given = [PATHS.get(op.__name__, TABLE)]
    if op in (channelwise_conv, radial_conv):
        x, given = x[:NODES], [graph_tensors(GRAPH), TABLE]
    weights = [weight] if op is not radial_conv else [weight, torch.eye(2)]
    out = op(x, y, *weights, *given).sum()
    for leaf, by_weight in ((x, False), (y, False), (weight, True)):
        with Seen() as seen:
            torch.autograd.grad(out, leaf, retain_graph=True)
        (arguments,) = seen.arguments
        assert arguments[-1] is by_weight


def test_a_table_that_is_written_to_is_read_again():
    table = by_values(TABLE.values.float())
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
            expected = n * channelwise_product(x, y, weight, TABLE)
            table = by_values(torch.full_like(TABLE.values, float(n)))
            got = channelwise_product(x, y, weight, table)
            torch.testing.assert_close(got, expected, msg=f"turn {turn}, table {n}")


def plans_made() -> int:
    count = ctypes.CDLL(kernels_info()["cpu"]).equigeo_plans_made
    count.restype = ctypes.c_int64
    return count()


@pytest.mark.skipif(kernels_info()["cpu"] is None, reason="the reference plans nothing")
@pytest.mark.parametrize("op", PRODUCTS)
def test_equal_tables_share_a_plan(op):
    x, y, weight = rows(dtype=torch.float64)
    table = PATHS[op.__name__]
    once, again, other = (replace(table, values=n * table.values) for n in (5.0, 5.0, 7.0))
    op(x, y, weight, once)
    before = plans_made()
    out = op(x.requires_grad_(), y, weight.requires_grad_(), again)
    (slope,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
    slope.square().sum().backward()
    assert plans_made() == before
    op(x, y, weight, other)
    assert plans_made() == before + 1


PRODUCT = tp.ChannelwiseTensorProduct("3x0e+2x1o", "0e+1o", "0e+1o").double()
CONV = tp.ChannelwiseConv("3x0e+2x1o", "0e+1o", "0e+1o").double()
FEW = EdgeIndex.from_edges(torch.tensor([[0, 2, 1, 1], [1, 0, 1, 3]]), 3, 4)
MIXED = tp.FullyConnectedTensorProduct(
    "3x0e+2x1o", "0e+1o", "0e+1o", shared_weights=False, internal_weights=False
).double()
PAIRS = tp.ElementwiseTensorProduct("3x0e+2x1o", "3x0e+2x1o").double()
CALLS = {
    "channelwise_product": (PRODUCT, PRODUCT, 4),
    "channelwise_conv": (lambda x, y, w: CONV((x, None), FEW, y, w, num_nodes=4), PRODUCT, 3),
    "copywise_product": (PAIRS, PAIRS, 4),
    "fully_connected_product": (MIXED, MIXED, 4),
}
every_call = pytest.mark.parametrize("name", CALLS)


def inputs(name: str) -> list[Tensor]:
    _, product, rows = CALLS[name]
    shapes = [(rows, product.irreps_in1.dim), (4, product.irreps_in2.dim)]
    if product.weight_numel:
        shapes.append((4, product.weight_numel))
    return [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


def first(name: str, *given: Tensor) -> tuple[Tensor, ...]:
    """Gradients along a direction that depends on the inputs."""
    out = CALLS[name][0](*given)
    return torch.autograd.grad(out.square().sum(), given, create_graph=True)


@every_call
def test_third_derivatives_agree_with_finite_differences(name):
    assert torch.autograd.gradgradcheck(lambda *x: first(name, *x), inputs(name), fast_mode=True)


@every_call
def test_one_op_has_all_second_derivatives(name):
    given = inputs(name)
    out = CALLS[name][0](*given)
    grad = torch.randn_like(out).requires_grad_()
    gradients = torch.autograd.grad(out, given, grad, create_graph=True)
    with Seen() as seen:
        torch.autograd.grad(sum(g.sum() for g in gradients), [grad, *given])
    assert seen.names == [f"{name}_double_backward"]


@pytest.mark.parametrize("wanted", list(itertools.product([False, True], repeat=4)), ids=str)
@pytest.mark.parametrize(
    ("name", "label"),
    [("channelwise_product", "odd"), ("copywise_product", "pairs"),
     ("fully_connected_product", "mul_ir")],
)  # fmt: skip
def test_results_that_are_not_wanted_are_empty(name, label, wanted):
    table = EVERY[name][label]
    dims = (table.dim_out, table.dim_x, table.dim_y, table.dim_weight)
    point = [torch.randn(5, dim, dtype=torch.float64) for dim in dims]
    rest = (*arrays(table), *layout_of(name, table))
    tangents = [torch.randn_like(x) for x in point[1:]]
    for given in itertools.product([False, True], repeat=3):
        along = [t if is_given else None for t, is_given in zip(tangents, given, strict=True)]
        arguments = (*point, *along, *rest, *wanted)
        found = declared(f"{name}_double_backward")(*arguments)
        composed = reference_of(f"{name}_double_backward")(*arguments)
        for mine, theirs, at, is_wanted in zip(found, composed, point, wanted, strict=True):
            assert mine.shape == theirs.shape == (at.shape if is_wanted else (0, 0))
            assert_close(mine, theirs, **tolerance(torch.float64, terms=100))


@pytest.mark.parametrize("name", ["channelwise_product", "copywise_product"])
def test_a_tangent_of_missing_weights_is_refused(name):
    given = {"weight": None, "x_tangent": None, "y_tangent": None}
    with pytest.raises(RuntimeError, match="weight_tangent must be None where there are no"):
        call(f"{name}_double_backward", **given, weight_tangent=torch.ones(4, 1))
