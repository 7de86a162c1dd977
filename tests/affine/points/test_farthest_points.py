"""Points spread over a cloud."""

from __future__ import annotations

import pytest
import torch

from equigeo.affine import farthest_points
from tests.affine.points.test_point_group_conv import random


def test_farthest_points_spread() -> None:
    points = random(2, 60, 3)
    few, many = farthest_points(points, 5), farthest_points(points, 20)
    assert torch.equal(many[:, :5], few)
    assert all(len(set(row.tolist())) == 20 for row in many)
    order = torch.randperm(60)
    assert torch.equal(order[farthest_points(points[:, order], 20)], many)
    with pytest.raises(ValueError, match="count must be"):
        farthest_points(points, 61)


def test_clouds_may_lie_anywhere() -> None:
    points = random(2, 60, 3)
    far = 2 * points + torch.tensor([5.0, -3.0, 8.0], dtype=torch.float64)
    assert torch.equal(farthest_points(far, 20), farthest_points(points, 20))


def test_other_shapes_are_named() -> None:
    with pytest.raises(ValueError, match=r"points must be \(B, P, C\), got \(5, 3\)"):
        farthest_points(torch.rand(5, 3), 2)
