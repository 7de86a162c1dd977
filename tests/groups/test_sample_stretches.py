"""Samples of stretches: windows, weights and generators."""

import math

import pytest
import torch
from torch import Tensor

from equigeo.groups import (
    GL,
    SL,
    SO,
    Affine,
    GLPlus,
    O,
    Scaling,
    Similarity,
    equidistant_rotations,
    finite_rotations,
    grid_stretches,
    haar_rotations,
    sample_stretches,
)
from tests.groups.drawn_samples import F64, STRETCHED, generator


def window(group, y: Tensor, width: float) -> Tensor:
    return torch.exp(-y[:, : group.symmetric_dimension].square().sum(-1) / (2 * width**2))


def test_weights_are_the_density_over_that_of_the_draws():
    std = 0.4
    samples = sample_stretches(GLPlus(3), 20, std, generator=generator())
    stretch = samples.coordinates[:, :6]
    normal = torch.exp(-stretch.square() / (2 * std**2)) / (std * math.sqrt(math.tau))
    density = GLPlus(3).haar_density(stretch)
    torch.testing.assert_close(samples.weight, density / normal.prod(-1) / 20, **F64)


def test_published_sampler_is_a_special_case():
    std = math.sqrt(0.1) / 2
    near = 0.01  # three digits, and three standard errors of 50,000, at most 0.32 % each
    for group, rms in ((GLPlus(2), 0.274), (SL(2), 0.224)):
        samples = sample_stretches(group, 50_000, std, generator=generator())
        y = samples.coordinates[:, : group.symmetric_dimension]
        assert float(y.square().sum(-1).mean().sqrt()) == pytest.approx(rms, rel=near)
    samples = sample_stretches(GLPlus(2), 50_000, std, generator=generator())
    assert float(samples.determinant.log().std()) == pytest.approx(0.224, rel=near)


@pytest.mark.parametrize("group", [SL(2), GLPlus(2), Scaling(2), Similarity(3), SL(3)], ids=str)
def test_all_samplers_estimate_the_same_integral(group):
    width, k = 0.2, 40_000
    extent = 5 * width
    estimates = {
        "normal": sample_stretches(group, k, 0.3, generator=generator()),
        "ball": sample_stretches(group, k, radius=extent, generator=generator()),
        "sobol normal": sample_stretches(group, 4096, std=0.3, quasi=True),
        "sobol ball": sample_stretches(
            group, 4096, radius=extent, quasi=True, generator=generator()
        ),
    }
    exact = grid_stretches(group, extent, 7 if group == SL(3) else 17)
    want = float((exact.weight * window(group, exact.coordinates, width)).sum())
    plain = (width * math.sqrt(math.tau)) ** group.symmetric_dimension
    assert want >= plain * 0.99999  # the density is at least 1
    for name, samples in estimates.items():
        got = float((samples.weight * window(group, samples.coordinates, width)).sum())
        bound = {"normal": 0.03, "ball": 0.2 if group == SL(3) else 0.06}.get(name, 0.02)
        if name == "sobol ball" and group == SL(3):
            bound = 0.1  # few points lie where the function does
        assert got == pytest.approx(want, rel=bound), name


def test_samplers_follow_their_generator():
    for make in (
        lambda source: sample_stretches(SL(2), 9, 0.3, generator=source),
        lambda source: sample_stretches(SL(2), 9, radius=0.3, generator=source),
        lambda source: sample_stretches(SL(2), 9, std=0.3, quasi=True, generator=source),
        lambda source: haar_rotations(3, 9, generator=source),
    ):
        first, second, other = (make(generator(seed)).coordinates for seed in (1, 1, 2))
        assert torch.equal(first, second)
        assert not torch.equal(first, other)
    before = torch.random.get_rng_state()
    assert torch.equal(
        sample_stretches(SL(3), 16, radius=1.0, quasi=True).h,
        sample_stretches(SL(3), 16, radius=1.0, quasi=True).h,
    )
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("window", [{"std": 0.5}, {"radius": 0.5}])
def test_a_single_sobol_point_is_the_centre(window):
    for group in STRETCHED:
        assert not sample_stretches(group, 1, **window, quasi=True).coordinates.any()


def test_ball_is_a_window_of_log_stretch():
    for group in STRETCHED:
        if not isinstance(group, Similarity):
            assert sample_stretches(group, 500, radius=0.7, generator=generator()).radius <= 0.7


def test_grid_of_scalings_is_closed_under_its_step():
    samples = grid_stretches(Scaling(3), 1.0, 5)
    step = 0.5
    moved = samples.act(math.exp(step) * torch.eye(3).double())
    torch.testing.assert_close(moved.h[:-1], samples.h[1:], **F64)
    torch.testing.assert_close(samples.weight, torch.full((5,), step).double(), **F64)
    torch.testing.assert_close(samples.determinant.log(), 3 * samples.coordinates[:, 0], **F64)


def test_samplers_refuse_impossible_windows():
    for group in (SO(2), O(3), Affine(SL(2))):
        with pytest.raises(ValueError, match="with stretches such as SL"):
            sample_stretches(group, 3, radius=1.0)
    for call, message in (
        (
            lambda: sample_stretches(SL(2), 3, radius=0.0),
            "radius must be positive and finite, got 0",
        ),
        (
            lambda: sample_stretches(SL(2), 3, math.nan),
            "std must be positive and finite, got nan",
        ),
        (lambda: sample_stretches(SL(2), 0, 1.0), "must be at least 1, got 0"),
        (lambda: sample_stretches(SL(2), 3), "give either std or radius"),
        (lambda: grid_stretches(GL(2), 1.0, 1), "points must be at least 2, got 1"),
        (lambda: equidistant_rotations(0), "k must be at least 1, got 0"),
        (lambda: equidistant_rotations(3, math.inf), "offset must be finite"),
        (lambda: finite_rotations("cubic"), "name must be one of dihedral, tetrahedral"),
        (lambda: finite_rotations("dihedral", 2 * torch.eye(3)), "rotation must be a rotation"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
