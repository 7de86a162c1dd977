import pytest
import torch
from torch.testing import assert_close

from equigeo.graphs import EdgeIndex
from equigeo.ops import gather_sum, principal_axes
from equigeo.ops.runtime.batching import blocks, channels, in_front, share_the_rest


def test_a_missing_batch_axis_is_expanded_and_another_moved():
    x = torch.arange(6.0).view(2, 3)
    assert in_front(x, None, 4).shape == (4, 2, 3)
    assert torch.equal(in_front(x, 1, 3), x.mT)


def test_what_is_shared_cannot_be_batched():
    x, table = torch.ones(2, 3), torch.arange(6.0).view(3, 2)
    share_the_rest({"x": x, "table": table}, {"x": 0, "table": None}, allowed=["x"])
    with pytest.raises(NotImplementedError, match="can batch x here, but not table of different"):
        share_the_rest({"x": x, "table": table}, {"x": 0, "table": 1}, allowed=["x"])
    equal = {"x": x, "table": table[:, :1].repeat(1, 2)}
    given, axes = share_the_rest(equal, {"x": 0, "table": 1}, allowed=["x"])
    assert axes == {"x": 0, "table": None}
    assert torch.equal(given["table"], table[:, 0])


def test_blocks_lie_one_after_another():
    seen = {}

    def op(x, index, ptr):
        seen.update(x=x, index=index, ptr=ptr)
        return x

    given = {
        "x": torch.zeros(2, 3, 1),
        "index": torch.tensor([2, 0]),
        "ptr": torch.tensor([0, 1, 2]),
    }
    rule = blocks(["x"], indices={"index": "x"}, offsets=["ptr"])
    result, dim = rule(op, 2, given, {"x": 0, "index": None, "ptr": None})
    assert result.shape == (2, 3, 1)
    assert dim == 0
    assert seen["index"].tolist() == [2, 0, 5, 3]
    assert seen["ptr"].tolist() == [0, 1, 2, 3, 4]


def test_an_index_may_count_segments():
    given = {
        "x": torch.zeros(2, 1),
        "target": torch.tensor([0, 2]),
        "ptr": torch.tensor([0, 1, 1, 2]),
    }
    rule = blocks(["x"], indices={"target": "ptr"}, offsets=["ptr"])
    found = []
    rule(
        lambda x, target, ptr: found.append(target) or x,
        2,
        given,
        {"x": 1, "target": None, "ptr": None},
    )
    assert found[0].tolist() == [0, 2, 3, 5]


def test_channels_of_a_batch_lie_side_by_side():
    x = torch.arange(12.0).view(2, 3, 2)
    result, dim = channels(["x"])(lambda x: 2 * x, 2, {"x": x}, {"x": 0})
    assert_close(result.movedim(dim, 0), 2 * x)


@pytest.mark.parametrize("size", [0, 1, 3])
def test_batches_of_any_size(size):
    ptr = torch.tensor([0, 3, 5])
    x = torch.randn(size, 5, 3, dtype=torch.float64)
    y, *_ = torch.func.vmap(lambda x: principal_axes(x, ptr, None, True, 2, 1, 1e-6, 1e-6))(x)
    assert y.shape == x.shape


def test_a_graph_cannot_be_batched():
    graph = EdgeIndex.from_edges(torch.tensor([[0, 1], [1, 0]]), 2, 2)
    x, sources = torch.ones(2, 1), torch.stack([graph.source, graph.source.flip(0)])

    def total(source):
        return gather_sum(x, source, graph.ptr, graph.back_target, graph.back_ptr)

    with pytest.raises(NotImplementedError, match="can batch x here, but not index"):
        torch.func.vmap(total)(sources)
