"""Nearest points by comparing all distances."""

from __future__ import annotations

import pytest
import torch

from equigeo.points import nearest_neighbors

pytestmark = pytest.mark.usefixtures("own_searches")


@pytest.mark.parametrize("dim", [1, 3, 40])
def test_they_are_the_nearest_in_order(dim):
    g = torch.Generator().manual_seed(0)
    x = torch.randn(2, 60, dim, generator=g, dtype=torch.float64)
    centers = torch.randn(2, 7, dim, generator=g, dtype=torch.float64)
    want = torch.cdist(centers, x).topk(5, largest=False).indices
    assert torch.equal(nearest_neighbors(x, 5, centers=centers), want)
    assert torch.equal(nearest_neighbors(x, 5)[..., 0], torch.arange(60).expand(2, 60))


def test_padding_is_no_neighbor_and_the_nearest_fills_up():
    x = torch.tensor([[[0.0], [1.0], [9.0], [4.0], [0.5]]])
    mask = torch.tensor([[True, True, False, True, False]])
    assert nearest_neighbors(x, 2, mask)[0, 0].tolist() == [0, 1]
    assert nearest_neighbors(x, 5, mask)[0, 3].tolist() == [3, 1, 0, 3, 3]


def test_of_fewer_points_all_are_neighbors():
    assert nearest_neighbors(torch.tensor([[[0.0], [1.0]]]), 9).tolist() == [[[0, 1], [1, 0]]]
