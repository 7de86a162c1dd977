"""Neighbours in the metric of a sample."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from equigeo.affine import PointNeighborhood, PointNeighbors
from equigeo.groups import SO, Affine, GLPlus, GroupSamples, haar_rotations
from tests.affine.points.test_point_group_conv import EXACT, Network, act, draw, elements, random

pytestmark = pytest.mark.filterwarnings("ignore::equigeo.affine.WindowWarning")


def test_euclidean_neighbours_are_not_equivariant_to_shears(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    find = PointNeighborhood.find

    def euclidean(
        self: PointNeighborhood, samples: GroupSamples, positions: Tensor, *rest: Tensor
    ) -> PointNeighbors:
        weight = torch.ones(1, dtype=torch.float64)
        identity = GroupSamples.from_elements(
            SO(3), torch.eye(3, dtype=torch.float64)[None], weight
        )
        plain = find(self, identity, positions, *rest)
        u = plain.u.expand(-1, len(samples), -1, -1, -1) @ samples.h_inv.mT[:, None]
        return PointNeighbors(plain.indices, plain.weight, u)

    monkeypatch.setattr(PointNeighborhood, "find", euclidean)
    net, samples = Network(GLPlus(3)), draw(GLPlus(3))
    f, points = random(1, 2, 30), random(1, 30, 3, seed=1)
    turn = Affine(GLPlus(3)).element(haar_rotations(3, 1).h[0], torch.zeros(3).double())
    shear = elements(GLPlus(3))[1]
    errors = []
    for g in (turn, shear):
        moved = samples.act(g)
        change = net(f, act(g, points), moved, moved) - net(f, points, samples, samples)
        errors.append(float(change.detach().abs().max()))
    assert errors[0] < EXACT["atol"]
    assert errors[1] > 1e-3


def test_all_points_inside_the_radius_are_read() -> None:
    points = random(2, 40, 3)
    samples = draw(GLPlus(3))
    found = PointNeighborhood(1.0, None).find(samples, points)
    few = PointNeighborhood(1.0, 40).find(samples, points)
    torch.testing.assert_close(found.weight.sum(-1), torch.ones(2, 3, 40).double(), **EXACT)
    inside = found.u.norm(dim=-1) <= 1
    assert torch.equal(found.weight > 0, inside)
    assert torch.equal(inside.sum(-1), (few.weight > 0).sum(-1))


def test_numbers_must_be_positive() -> None:
    with pytest.raises(ValueError, match="must be positive"):
        PointNeighborhood(k=0)
    with pytest.raises(ValueError, match="must be positive"):
        PointNeighborhood(radius=0.0)
