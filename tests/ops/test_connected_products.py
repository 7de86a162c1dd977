"""What tables and operands must be, and errors that come before any memory is touched."""

import pytest
import torch

from equigeo.ops import (
    Path,
    PathTable,
    Segment,
    channelwise_product,
    copywise_product,
    fully_connected_product,
    kernels_info,
)
from equigeo.ops.products.copywise_product import copywise_product_backward
from equigeo.ops.products.fully_connected_product import fully_connected_product_backward
from tests.ops.products.test_channelwise_product import TABLE as CHANNELWISE

pytestmark = pytest.mark.kernels

compiled = pytest.mark.skipif(
    kernels_info()["cpu"] is None, reason="the reference trusts its table"
)
DOT = torch.eye(3, dtype=torch.float64)[..., None]
VECTORS, VECTOR = Segment.block(0, 2, 3), Segment.block(0, 1, 3)
PAIRS = Path(VECTORS, VECTOR, Segment.block(0, 2, 1), 0, DOT)
MIXED = Path(VECTORS, VECTOR, Segment.block(0, 1, 1), 0, DOT)
DIMS = (6, 3, 2, 2)
TABLES = {
    copywise_product: PathTable.from_paths([PAIRS], DIMS),
    fully_connected_product: PathTable.from_paths([MIXED], DIMS),
}
BACKWARD = {
    copywise_product: copywise_product_backward,
    fully_connected_product: fully_connected_product_backward,
}
every_op = pytest.mark.parametrize("op", [*TABLES], ids=lambda op: op.__name__)


def rows(count=4):
    return [torch.randn(count, dim) for dim in DIMS[:3]]


def changed(table, column, value):
    paths = table.paths.clone()
    paths[0, column] = value
    return PathTable(paths, table.entries, table.values, *DIMS)


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


@every_op
def test_the_same_weights_for_all_rows_may_be_expanded(op):
    x, y, weight = rows()
    expanded = weight[:1].expand(4, 2).requires_grad_()
    copied = weight[:1].repeat(4, 1).requires_grad_()
    results = [op(x, y, w, TABLES[op]) for w in (expanded, copied)]
    assert torch.equal(*results)
    gradients = [
        torch.autograd.grad(out.square().sum(), w)
        for out, w in zip(results, (expanded, copied), strict=True)
    ]
    assert torch.equal(*(gradient for (gradient,) in gradients))


LEAVING = [(0, 1), (0, -1), (1, 3), (1, 0), (1, 2**62), (3, 4), (4, 3), (4, 2**62), (5, 1), (6, 2)]
LEAVING += [(10, 2), (10, -1), (13, 0), (15, 1), (15, 2**62)]


@compiled
@every_op
@pytest.mark.parametrize(("column", "value"), LEAVING)
def test_a_table_that_leaves_its_rows_is_refused(op, column, value):
    table = changed(TABLES[op], column, value)
    with pytest.raises(RuntimeError, match="path 0"):
        op(*rows(), table)
    with pytest.raises(RuntimeError, match="path 0"):
        BACKWARD[op](torch.ones(4, 2), *rows(), table.paths, table.entries, table.values.float())


@compiled
@every_op
@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (2, 2, "a component that does not exist|1 to 13 components"),
        (7, 1, "a component that does not exist"),
        (16, -1, "coefficients that do not exist"),
        (17, 4, "coefficients that do not exist"),
        (15, -1, "must have weights as all paths, or none"),
    ],
)
def test_a_table_that_contradicts_itself_is_refused(op, column, value, message):
    with pytest.raises(RuntimeError, match=message):
        op(*rows(), changed(TABLES[op], column, value))


@compiled
def test_copies_that_do_not_meet_are_refused():
    wrong = changed(TABLES[copywise_product], 11, 1)
    with pytest.raises(RuntimeError, match="as many copies as pairs of copies, or as each input"):
        copywise_product(*rows(), wrong)


@compiled
def test_segments_that_are_mixed_must_not_overlap():
    twice = Path(VECTORS, VECTOR, Segment.block(1, 1, 1), 0, DOT)
    table = PathTable.from_paths([MIXED, twice], DIMS)
    with pytest.raises(RuntimeError, match="paths must not overlap in the weights"):
        fully_connected_product(*rows(), table)


@pytest.mark.parametrize("op", [*TABLES, channelwise_product], ids=lambda op: op.__name__)
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"x": torch.zeros(4, 5)}, ValueError, r"x must have 6 components, got shape \(4, 5\)"),
        ({"y": torch.zeros(4, 4)}, ValueError, "y must have 3 components"),
        ({"y": torch.zeros(3, 3)}, ValueError, "y must have 4 rows, got 3"),
        ({"weight": torch.zeros(4, 3)}, ValueError, "weight must have 2 components"),
        ({"weight": torch.zeros(1, 2)}, ValueError, "weight must have 4 rows, got 1"),
        ({"weight": None}, ValueError, "weight must have 2 numbers per row, got None"),
        ({"y": torch.zeros(4, 3).double()}, TypeError, "y must have the dtype of x"),
        ({"x": torch.zeros(4, 6).long()}, TypeError, "x must be float32 or float64"),
        ({"x": torch.zeros(4, 6).bfloat16()}, TypeError, "y must have the dtype of x"),
        ({"x": torch.zeros(6)}, ValueError, "x must be"),
        ({"y": torch.zeros(4, 3, device="meta")}, ValueError, "device"),
    ],
    ids=str,
)
def test_operands_that_do_not_fit_are_named(op, change, error, message):
    operands = dict(zip(("x", "y", "weight"), rows(), strict=True)) | change
    operands["table"] = {**TABLES, channelwise_product: CHANNELWISE}[op]
    with pytest.raises(error, match=message):
        op(**operands)
    torch._dynamo.reset()  # sizes that differed between earlier calls are symbols in messages
    call = torch.compile(op, fullgraph=True, backend="eager")
    with pytest.raises(Exception, match=message):
        call(**operands)
