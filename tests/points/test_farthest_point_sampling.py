"""Greedy choices of far points: starts, ties, padding, other metric spaces."""

from __future__ import annotations

import pytest
import torch

from equigeo.points import farthest_point_sampling, gather_rows
from equigeo.points.farthest_point_sampling import farthest_first

pytestmark = pytest.mark.usefixtures("own_searches")


def test_they_are_the_farthest_of_those_that_are_there():
    x = torch.tensor([[[0.0], [1.0], [9.0], [4.0], [50.0]]])
    mask = torch.tensor([[True, True, True, True, False]])
    assert farthest_point_sampling(x, 3, mask).tolist() == [[2, 0, 3]]
    assert farthest_point_sampling(x, 5, mask).tolist() == [[2, 0, 3, 1, 0]]


def test_every_choice_is_the_farthest_from_those_before():
    x = torch.randn(3, 50, 3, generator=torch.Generator().manual_seed(0))
    origin = x.mean(1)
    chosen = farthest_point_sampling(x, 12, origin=origin)
    assert torch.equal(chosen[:, 0], (x - origin[:, None]).norm(dim=-1).argmax(1))
    for m in range(1, 12):
        reach = torch.cdist(x, gather_rows(x, chosen[:, :m])).amin(-1)
        assert torch.equal(chosen[:, m], reach.argmax(1))
    assert torch.equal(farthest_point_sampling(x, 5, origin=origin), chosen[:, :5])


def test_the_first_of_equals_is_chosen():
    square = torch.tensor([[[1.0, 0], [0, 1], [-1, 0], [0, -1]]])
    assert farthest_point_sampling(square, 4).tolist() == [[0, 2, 1, 3]]
    assert farthest_point_sampling(torch.ones(1, 4, 2), 3).tolist() == [[0, 0, 0]]


@pytest.mark.parametrize("count", [0, 5])
def test_a_count_out_of_range_is_named(count):
    with pytest.raises(ValueError, match=rf"the points of \(1, 4, 3\), got {count}"):
        farthest_point_sampling(torch.zeros(1, 4, 3), count)


def test_other_metric_spaces_are_covered():
    hops = (torch.arange(10)[:, None] - torch.arange(10)).abs()
    around = torch.minimum(hops, 10 - hops)  # a ring
    asked = []

    def measure(chosen):
        asked.append(int(chosen))
        return around[int(chosen)]

    assert farthest_first(torch.tensor([3]), measure, 4).tolist() == [3, 8, 0, 5]
    assert asked == [3, 8, 0]
