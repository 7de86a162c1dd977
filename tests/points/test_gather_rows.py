"""Rows of clouds by position."""

from __future__ import annotations

import pytest
import torch

from equigeo.points import gather_rows


@pytest.mark.parametrize("features", [(), (4,), (2, 3), (0,)])
@pytest.mark.parametrize("axes", [(5,), (2, 3), (0,)])
def test_each_cloud_gives_its_own_rows(features, axes):
    g = torch.Generator().manual_seed(0)
    rows = torch.randn(3, 7, *features, generator=g)
    indices = torch.randint(7, (3, *axes), generator=g)
    want = torch.stack([rows[b][indices[b]] for b in range(3)])
    assert torch.equal(gather_rows(rows, indices), want)


def test_gradients_add_up_where_a_row_is_taken_twice():
    rows = torch.zeros(1, 3, 2, requires_grad=True)
    gather_rows(rows, torch.tensor([[1, 1, 0]])).sum().backward()
    assert rows.grad.tolist() == [[[1, 1], [2, 2], [0, 0]]]
