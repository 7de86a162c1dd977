"""Features that end in a circle instead of a square."""

from __future__ import annotations

import torch

from equigeo.affine import KernelSpec, LiftConv
from equigeo.affine.models.disc_taper import disc_taper
from equigeo.groups import SO, equidistant_rotations


def test_nothing_is_left_outside_of_the_circle_and_nothing_changes_inside_of_the_rim() -> None:
    x = torch.rand(2, 3, 16, 16, dtype=torch.float64)
    steps = (2 * torch.arange(16, dtype=torch.float64) + 1) / 16 - 1
    radius = (steps[:, None].square() + steps.square()).sqrt()
    y = disc_taper(x, 0.35)
    assert (y[..., radius >= 1] == 0).all()
    assert torch.equal(y[..., radius <= 0.65], x[..., radius <= 0.65])
    assert ((y >= 0) & (y <= x)).all()
    assert disc_taper(x, 0.0) is x


def spread_over_orientations(rim: float) -> float:
    """How much a constant background tells orientations apart, which all see the same of it."""
    torch.manual_seed(0)
    lift = LiftConv(SO(2), 1, 4, KernelSpec(9, network="rbf"), padding=4).double()
    x = disc_taper(torch.ones(1, 1, 48, 48, dtype=torch.float64), rim)
    seen = torch.relu(lift(x, equidistant_rotations(24))[0]).mean((0, 3, 4))
    return float((seen.std(1) / seen.mean(1)).detach().mean())


def test_background_that_ends_in_a_circle_looks_alike_from_every_side() -> None:
    assert spread_over_orientations(0.35) < spread_over_orientations(0.0) / 10
