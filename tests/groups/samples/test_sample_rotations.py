"""Samples of rotations: finite groups and equidistant angles."""

from __future__ import annotations

import math

import pytest
import torch

from equigeo.groups import (
    SO,
    GroupSamples,
    equidistant_rotations,
    finite_rotations,
)
from equigeo.testing import tolerance
from tests.groups.samples.drawn_samples import F64, generator

PRODUCT = tolerance(torch.float64, terms=3)["atol"]


def closed(samples: GroupSamples) -> bool:
    """Whether all products of two elements are elements."""
    products = (samples.h[:, None] @ samples.h).flatten(0, 1)
    distance = (products[:, None] - samples.h).abs().amax((-2, -1))
    return bool((distance.amin(1) < PRODUCT).all())


def test_equidistant_rotations_leave_the_full_turn_out():
    samples = equidistant_rotations(8, offset=0.1)
    angle = samples.coordinates[:, 0] % math.tau
    torch.testing.assert_close(angle, 0.1 + math.tau / 8 * torch.arange(8).double(), **F64)
    assert samples.weight.tolist() == [1 / 8] * 8
    # exact for all frequencies below the number of samples; a duplicated endpoint is not
    for frequency in range(1, 8):
        mean = (samples.weight * (frequency * samples.coordinates[:, 0]).cos()).sum()
        assert abs(float(mean)) < tolerance(torch.float64, terms=8)["atol"]
    duplicated = torch.linspace(-math.pi, math.pi, 8)
    assert abs(float(duplicated.cos().mean())) > 0.1
    assert equidistant_rotations(4).h.abs().sum() == 8  # quarter turns without rounding


@pytest.mark.parametrize(
    ("name", "order", "degree"),
    [("dihedral", 4, 1), ("tetrahedral", 12, 2), ("octahedral", 24, 3), ("icosahedral", 60, 5)],
)
def test_finite_rotations(name, order, degree):
    samples = finite_rotations(name)
    assert len(samples) == order
    assert closed(samples)
    assert torch.equal(samples.h[0], torch.eye(3).double())
    assert SO(3).contains(samples.h, tol=1e-15).all()
    different = (samples.h[:, None] - samples.h).abs().amax((-2, -1)) > 0.1
    assert int(different.sum()) == order * (order - 1)
    if order < 60:
        assert torch.equal(samples.h, samples.h.round())
    # characters integrate to zero up to the stated degree, and no further
    angle = samples.coordinates.norm(dim=1)
    means = []
    for l in range(1, degree + 2):
        character = sum(((2 * torch.cos(m * angle)) for m in range(1, l + 1)), torch.ones(order))
        means.append(float(character.mean()))
    near = tolerance(torch.float64, terms=order)["atol"]
    assert means[:-1] == pytest.approx([0.0] * degree, abs=near)
    assert means[-1] > 0.9


def test_turned_finite_rotations():
    rotation = SO(3).haar(1, generator=generator())[0]
    samples = finite_rotations("octahedral", rotation)
    gamma = finite_rotations("octahedral").h
    torch.testing.assert_close(samples.h, rotation @ gamma, **F64)
    assert not closed(samples)
    relative = (samples.h_inv[:, None] @ samples.h).flatten(0, 1)
    distance = (relative[:, None] - gamma).abs().amax((-2, -1)).amin(1)
    assert float(distance.max()) < PRODUCT
