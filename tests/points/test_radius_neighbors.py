"""Points inside balls."""

from __future__ import annotations

import pytest
import torch

from equigeo.points import radius_neighbors

pytestmark = pytest.mark.usefixtures("own_searches")
LINE = torch.tensor([[[0.0], [1.0], [9.0], [2.0]]])


def test_what_lies_on_the_sphere_is_inside():
    indices, inside = radius_neighbors(LINE, 1.0)
    assert indices.tolist() == [[[0, 1, 2, 3]] * 4]
    assert inside.int().tolist() == [[[1, 1, 0, 0], [1, 1, 0, 1], [0, 0, 1, 0], [0, 1, 0, 1]]]


def test_the_nearest_of_more_are_kept():
    indices, inside = radius_neighbors(LINE, 3.0, 2, centers=torch.tensor([[[-0.5], [6.5]]]))
    assert sorted(indices[0, 0].tolist()) == [0, 1]
    assert inside.int().sum(-1).tolist() == [[2, 1]]
    assert int(indices[0, 1][inside[0, 1]]) == 2


def test_padding_is_never_inside():
    mask = torch.tensor([[True, False, True, True]])
    for count in (None, 3, 9):
        indices, inside = radius_neighbors(LINE, 1.5, count, mask)
        assert not bool((inside & (indices == 1)).any())
        assert indices.shape[-1] == min(count or 9, 4)


def test_batch_axes_are_free():
    x = torch.randn(2, 5, 30, 3, generator=torch.Generator().manual_seed(0))
    indices, inside = radius_neighbors(x, 1.0, 6, torch.ones(2, 1, 30, dtype=torch.bool))
    alone = radius_neighbors(x[1, 3], 1.0, 6)
    assert torch.equal(indices[1, 3], alone[0])
    assert torch.equal(inside[1, 3], alone[1])
