"""Invariant measures, checked by integrals that must not move and by closed forms."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.func import jacrev, vmap

from equigeo.groups import (
    SL,
    SO,
    Affine,
    GLPlus,
    GroupSamples,
    LinearGroup,
    Scaling,
    Similarity,
    haar_rotations,
    lognormal_stretches,
    pair_samples,
    polar,
    rotation_exp,
)
from equigeo.groups.charts.polar_chart import chart_factors
from equigeo.testing import tolerance

DRAWS = 64_000
F64 = tolerance(torch.float64, terms=16, condition=20)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("spread", [0.0, 0.7])
def test_density_is_the_jacobian_of_the_chart(n, spread):
    group = GLPlus(n)
    c = spread * torch.randn(10, group.dimension, dtype=torch.float64, generator=generator())
    stretches, rotations = group.generators().tensor_split([group.symmetric_dimension])

    def moved(c: Tensor, y: Tensor, w: Tensor) -> Tensor:
        """Element at coordinates y, its rotation multiplied from the left by a small one."""
        p, _ = chart_factors(torch.cat([y, 0 * w]), stretches, rotations=True)
        _, r = chart_factors(c, stretches, rotations=True)
        skew = torch.einsum("d,dij->ij", w / math.sqrt(2), rotations)  # orthonormal in so(n)
        return (p @ (torch.eye(n) + skew) @ r).flatten()

    for one in c:
        y = one[: group.symmetric_dimension]
        w = torch.zeros(len(one) - len(y), dtype=torch.float64)
        parts = jacrev(lambda y, w, one=one: moved(one, y, w), argnums=(0, 1))(y, w)
        volume = torch.linalg.det(torch.cat(parts, -1)).abs()
        g = group.from_coordinates(one)
        ratio = volume / torch.linalg.det(g) ** n / group.haar_density(one)
        assert float(ratio) == pytest.approx(1.0, abs=1e-8)


def test_density_of_groups_without_shear():
    for group in (SO(3), Scaling(2), Similarity(3)):
        assert group.haar_density(torch.randn(4, group.dimension)).tolist() == [1.0] * 4
    y = torch.tensor([0.5, 0.0], dtype=torch.float64)
    gap = 2 * 0.5 / math.sqrt(2)
    assert float(SL(2).haar_density(y)) == pytest.approx(math.sinh(gap) / gap, abs=1e-15)


@pytest.mark.parametrize("group", [GLPlus(2), SL(3)], ids=str)
def test_gradients_of_the_density(group):
    y = 0.5 * torch.randn(3, group.dimension, dtype=torch.float64, generator=generator())
    y = torch.cat([y, 0 * y[:1]]).requires_grad_()
    assert torch.autograd.gradcheck(group.haar_density, y)


# invariance of integrals -------------------------------------------------------------------------


def bump(group: LinearGroup, g: Tensor) -> Tensor:
    c = group.coordinates(g)
    y, angle = c[:, : group.symmetric_dimension], c[:, -1]
    return torch.exp(-y.square().sum(-1) / 0.32) * (1 + 0.5 * torch.cos(angle - 0.3))


def translation_ratio(samples: GroupSamples, weight: Tensor) -> tuple[float, float]:
    """Integral of a function, and of the moved one relative to it, from the same draws."""
    k = torch.tensor([[1.3, 0.35], [-0.2, 0.85]], dtype=torch.float64)
    if samples.group == SL(2):
        k = k / torch.linalg.det(k).sqrt()
    still = (weight * bump(samples.group, samples.h)).sum()
    moved = (weight * bump(samples.group, k @ samples.h)).sum()
    return float(still), float(moved / still)


@pytest.mark.parametrize(
    ("group", "integral", "unweighted"), [(GLPlus(2), 1.1237, 0.900), (SL(2), 1.1203, 0.910)]
)
def test_haar_integrals_are_invariant(group, integral, unweighted):
    source = generator()
    samples = pair_samples(
        lognormal_stretches(group, DRAWS, 0.7, generator=source),
        haar_rotations(2, DRAWS, generator=source),
    )
    value, ratio = translation_ratio(samples, samples.weight)
    assert ratio == pytest.approx(1.0, abs=0.015)
    few = samples.select(torch.arange(4000))
    assert translation_ratio(few, few.weight)[1] == pytest.approx(1.0, abs=0.06)
    # the specification states the integral up to the volume of the window of Gaussian width 0.4
    volume = (0.4 * math.sqrt(math.tau)) ** group.symmetric_dimension
    assert value / volume == pytest.approx(integral, rel=0.02)
    # negative control: without the density of the draws the integral moves
    _, ratio = translation_ratio(samples, torch.full_like(samples.weight, 1 / DRAWS))
    assert ratio == pytest.approx(unweighted, abs=0.015)


@pytest.mark.slow
@pytest.mark.parametrize("group", [GLPlus(2), SL(2)], ids=str)
def test_haar_integrals_converge(group):
    source, draws = generator(1), 1_000_000
    samples = pair_samples(
        lognormal_stretches(group, draws, 0.7, generator=source),
        haar_rotations(2, draws, generator=source),
    )
    assert translation_ratio(samples, samples.weight)[1] == pytest.approx(1.0, abs=0.004)


def test_affine_measures():
    """Left Haar measure is invariant on the left only; without the determinant on neither side."""
    group, linear = Affine(GLPlus(2)), GLPlus(2)
    source = generator(2)
    samples = pair_samples(
        lognormal_stretches(linear, DRAWS, 0.45, generator=source),
        haar_rotations(2, DRAWS, generator=source),
    )
    shift = 1.6 * torch.randn(DRAWS, 2, dtype=torch.float64, generator=source)
    density = torch.exp(-shift.square().sum(-1) / (2 * 1.6**2)) / (math.tau * 1.6**2)
    c = torch.cat([shift, samples.coordinates], -1)
    j = linear.haar_density(samples.coordinates)
    left = samples.weight / j * group.haar_density(c) / density
    right = samples.weight / density
    g = group.from_coordinates(c)
    torch.testing.assert_close(
        group.haar_density(c) * torch.linalg.det(samples.h), j, **F64
    )  # the two measures differ by the determinant
    g0 = group.element(
        torch.tensor([[1.2, 0.2], [-0.1, 1.0]], dtype=torch.float64),
        torch.tensor([0.3, -0.2], dtype=torch.float64),
    )
    det = float(torch.linalg.det(g0))

    def integral(g: Tensor, weight: Tensor) -> float:
        spread = torch.exp(-g[:, :2, 2].square().sum(-1) / 0.8)
        return float((weight * spread * bump(linear, g[:, :2, :2])).sum())

    assert integral(g0 @ g, left) / integral(g, left) == pytest.approx(1.0, abs=0.03)
    assert integral(g @ g0, left) / integral(g, left) == pytest.approx(det, rel=0.03)
    assert integral(g0 @ g, right) / integral(g, right) == pytest.approx(1 / det, rel=0.03)
    assert integral(g @ g0, right) / integral(g, right) == pytest.approx(1.0, abs=0.03)


# constants ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "mean"), [(2, 1.0), (3, 2 * math.sqrt(2 / math.pi))])
def test_gaussian_matrices_have_uniform_rotations(n, mean):
    x = torch.randn(100_000, n, n, dtype=torch.float64, generator=generator())
    det = torch.linalg.det(x)
    assert float(det.abs().mean()) == pytest.approx(mean, rel=0.02)
    p, r = polar(x[det > 0])
    trace = r.diagonal(dim1=1, dim2=2).sum(-1)
    assert float(trace.square().mean()) == pytest.approx(2.0 if n == 2 else 1.0, abs=0.05)
    fourth = float(trace.pow(4).mean())
    assert fourth == pytest.approx(6.0 if n == 2 else 3.0, abs=0.2)
    stretch = p.diagonal(dim1=1, dim2=2).sum(-1)
    together = torch.corrcoef(torch.stack([stretch, trace, trace.square()]))
    assert float(together[0, 1:].abs().max()) < 0.02  # the factors are independent


def test_volumes_of_rotation_groups():
    """The measure of R^T dR in orthonormal coordinates of the angle or axis (hat norm 1)."""
    angle = torch.linspace(0, math.pi, 20_001, dtype=torch.float64)
    density = 4 * math.pi * 2 * (1 - angle.cos())  # of axis times angle, integrated over axes
    assert float(torch.trapezoid(density, angle)) == pytest.approx(8 * math.pi**2, rel=1e-7)
    w = torch.tensor([0.3, -0.7, 1.1], dtype=torch.float64)

    tangent = rotation_exp(w).T @ jacrev(rotation_exp)(w).movedim(-1, 0)
    frame = torch.stack([tangent[:, 2, 1], tangent[:, 0, 2], tangent[:, 1, 0]], -1)
    theta = w.norm()
    want = 2 * (1 - theta.cos()) / theta**2
    torch.testing.assert_close(torch.linalg.det(frame), want, **F64)


def test_haar_rotations_of_space():
    h = haar_rotations(3, 100_000, generator=generator()).h
    trace = h.diagonal(dim1=1, dim2=2).sum(-1)
    moments = [float((trace**k).mean()) for k in (1, 2, 3, 4)]
    assert moments == pytest.approx([0, 1, 1, 3], abs=0.15)
    angle = SO(3).coordinates(h).norm(dim=1)
    assert float(angle.mean()) == pytest.approx(2.207416, abs=0.01)
    count = torch.histc(angle, 20, 0, math.pi) / len(h)
    edges = torch.linspace(0, math.pi, 21, dtype=torch.float64)
    want = torch.diff(edges - edges.sin()) / math.pi  # density (1 - cos) / pi
    assert float((count - want).abs().max()) < 0.005


def test_hyperbolic_plane():
    """SL(2) / SO(2) is the upper half plane, with y^-2 dx dy = 2 J dY."""
    group = SL(2)

    def half_plane(y: Tensor) -> Tensor:
        p, _ = chart_factors(
            torch.nn.functional.pad(y, (0, 1)), group.generators()[:2], rotations=True
        )
        # z = p . i for the Moebius action
        low = p[1, 0] ** 2 + p[1, 1] ** 2
        return torch.stack([(p[0, 0] * p[1, 0] + p[0, 1] * p[1, 1]) / low, 1 / low])

    y = 0.8 * torch.randn(50, 2, dtype=torch.float64, generator=generator())
    jacobian = torch.linalg.det(vmap(jacrev(half_plane))(y)).abs()
    height = torch.stack([half_plane(one)[1] for one in y])
    torch.testing.assert_close(jacobian / height**2, 2 * group.haar_density(y), **F64)
