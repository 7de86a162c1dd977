"""What kernels may read does not change where both elements move."""

from __future__ import annotations

import pytest
import torch

from equigeo.affine import relative_coordinates, relative_points
from equigeo.groups import GLPlus, equidistant_rotations
from tests.affine.points.test_point_group_conv import draw, random


def test_left_multiplication_changes_nothing() -> None:
    outputs, inputs = draw(GLPlus(3), 3), draw(GLPlus(3), 4, seed=1)
    g, points = draw(GLPlus(3), 1, seed=2).h[0], random(6, 3)
    moved = relative_coordinates(outputs.act(g), inputs.act(g))
    close = {"rtol": 0, "atol": 1e-10}
    torch.testing.assert_close(moved, relative_coordinates(outputs, inputs), **close)
    seen = relative_points(outputs.act(g), points @ g.mT)
    torch.testing.assert_close(seen, relative_points(outputs, points), **close)


def test_groups_are_not_mixed() -> None:
    with pytest.raises(ValueError, match="samples must be of one group"):
        relative_coordinates(draw(GLPlus(3)), equidistant_rotations(4))
