"""Samples as quadrature: one group convolution of Gaussians, known to twelve digits."""

import math

import pytest
import torch
from torch import Tensor

from equigeo.groups import (
    SL,
    SO,
    GroupSamples,
    equidistant_rotations,
    grid_stretches,
    haar_rotations,
    lognormal_stretches,
    multiply_samples,
    pair_samples,
    rotation_exp,
)


def tensor(*rows: list[float] | float) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


# signal: amplitudes, centres and covariances of three Gaussians
SIGNAL = [
    (1.0, tensor(0.3, 0.1), tensor([0.10, 0.03], [0.03, 0.05])),
    (-0.7, tensor(-0.2, 0.4), tensor([0.04, 0.0], [0.0, 0.09])),
    (0.5, tensor(0.1, -0.5), tensor([0.06, -0.02], [-0.02, 0.03])),
]
LIFT_SHIFT, LIFT = tensor(0.15, 0.05), tensor([0.05, 0.0], [0.0, 0.02])
SHIFT, SPREAD = tensor(0.1, -0.1), tensor([0.06, 0.01], [0.01, 0.03])
POINT = tensor(0.2, -0.1)
STRETCHED = tensor([1.2, 0.4], [-0.3, 0.9]) / math.sqrt(1.2)
MOVE = tensor([1.25, 0.3], [0.1, 0.824])  # of determinant one


def convolution(samples: GroupSamples, x: Tensor, h: Tensor, move: Tensor) -> float:
    """Lift the moved signal, convolve over the group, read at (x, h): a sum of closed forms."""
    det, group = torch.linalg.det, samples.group
    c = group.coordinates(torch.linalg.inv(h) @ samples.h)
    y, angle = c[:, : group.symmetric_dimension], c[:, -1]
    kernel = torch.exp(-y.square().sum(-1) / (2 * 0.25**2))
    kernel = kernel * (1 + 0.8 * torch.cos(angle - 0.4) + 0.5 * torch.cos(2 * angle))
    lift, spread = samples.h @ LIFT @ samples.h.mT, h @ SPREAD @ h.T
    total = torch.zeros(len(samples), dtype=torch.float64)
    for amplitude, centre, covariance in SIGNAL:
        centre, covariance = move @ centre, move @ covariance @ move.T
        both = covariance + lift
        d = centre - samples.h @ LIFT_SHIFT - x - h @ SHIFT
        exponent = (d * torch.linalg.solve(both + spread, d)).sum(-1)
        volume = det(covariance) * det(lift) * det(spread) / det(both + spread)
        total += amplitude * math.tau**2 * volume.sqrt() * torch.exp(-exponent / 2)
    return float((samples.weight * kernel * total / samples.determinant**2).sum())


def test_rotations_of_the_plane():
    value = convolution(
        equidistant_rotations(16), POINT, rotation_exp(tensor(0.5)), torch.eye(2).double()
    )
    assert value == pytest.approx(0.01931669032, abs=1e-11)  # eleven decimals


def test_error_of_equidistant_rotations_falls_faster_than_any_power():
    h, still = rotation_exp(tensor(0.5)), torch.eye(2).double()
    errors = {}
    for k in (4, 6, 8, 10, 16):
        errors[k] = abs(convolution(equidistant_rotations(k), POINT, h, still) - 0.01931669032)
    assert errors[8] < 1e-2 * errors[4]
    assert errors[16] < 1e-8 * errors[4] + 1e-11
    # negative control: with the full turn counted twice the error falls like 1 / k
    angle = torch.linspace(-math.pi, math.pi, 16, dtype=torch.float64)[:, None]
    weight = torch.full((16,), 1 / 16, dtype=torch.float64)
    twice = GroupSamples.from_coordinates(SO(2), angle, weight)
    assert abs(convolution(twice, POINT, h, still) - 0.01931669032) > 1e-4


@pytest.mark.parametrize("move", [torch.eye(2).double(), MOVE], ids=["still", "moved"])
def test_stretches_and_rotations_of_the_plane(move):
    samples = multiply_samples(grid_stretches(SL(2), 2.2, 25), equidistant_rotations(24))
    value = convolution(samples, move @ POINT, move @ STRETCHED, move)
    assert value == pytest.approx(0.005939353736, abs=1e-12)  # twelve decimals
    coarse = multiply_samples(grid_stretches(SL(2), 1.5, 9), equidistant_rotations(12))
    value = convolution(coarse, move @ POINT, move @ STRETCHED, move)
    # Stretches are 1.5 deviations of the kernel apart: 2 exp(-2 pi^2 / 1.5^2) = 3e-4 along each of
    # two axes, and 1e-4 of it lie beyond them.
    assert value == pytest.approx(0.005939353736, rel=2e-3)


@pytest.mark.parametrize("move", [torch.eye(2).double(), MOVE], ids=["still", "moved"])
def test_random_samples_converge_to_the_same_value(move):
    source = torch.Generator().manual_seed(0)
    errors = []
    for k in (1000, 64_000):
        samples = pair_samples(
            lognormal_stretches(SL(2), k, 0.7, generator=source),
            haar_rotations(2, k, generator=source),
        )
        value = convolution(samples, move @ POINT, move @ STRETCHED, move)
        errors.append(abs(value / 0.005939353736 - 1))
    assert errors[0] < 0.3
    assert errors[1] < 0.04
