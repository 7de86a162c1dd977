"""Invariant measures, checked by integrals that must not move and by closed forms."""

import math

import pytest
import torch
from torch import Tensor
from torch.func import jacrev

from equigeo.groups import (
    SL,
    SO,
    Affine,
    GLPlus,
    GroupSamples,
    LinearGroup,
    O,
    Scaling,
    Similarity,
    haar_rotations,
    pair_samples,
    sample_stretches,
)
from equigeo.testing import tolerance
from tests.draws import generator
from tests.groups.cases import F64, paired

DRAWS = 64_000
ROUNDED = {"abs": tolerance(torch.float64)["atol"]}


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("spread", [0.0, 0.7])
def test_density_is_the_jacobian_of_the_chart(n, spread):
    group = GLPlus(n)
    c = spread * torch.randn(10, group.dimension, dtype=torch.float64, generator=generator())
    rotations = group.generators()[group.symmetric_dimension :]

    def moved(c: Tensor, y: Tensor, w: Tensor) -> Tensor:
        """Element at coordinates y, its rotation multiplied from the left by a small one."""
        p, _ = group._factors(torch.cat([y, 0 * w]))
        _, r = group._factors(c)
        skew = torch.einsum("d,dij->ij", w / math.sqrt(2), rotations)  # orthonormal in so(n)
        return (p @ (torch.eye(n) + skew) @ r).flatten()

    for one in c:
        y = one[: group.symmetric_dimension]
        w = torch.zeros(len(one) - len(y), dtype=torch.float64)
        parts = jacrev(lambda y, w, one=one: moved(one, y, w), argnums=(0, 1))(y, w)
        volume = torch.linalg.det(torch.cat(parts, -1)).abs()
        g = group.from_coordinates(one)
        ratio = volume / torch.linalg.det(g) ** n / group.haar_density(one)
        assert float(ratio) == pytest.approx(1.0, abs=F64["atol"])


def test_density_of_groups_without_shear():
    for group in (SO(3), Scaling(2), Similarity(3)):
        assert group.haar_density(torch.randn(4, group.dimension)).tolist() == [1.0] * 4
    y = torch.tensor([0.5, 0.0], dtype=torch.float64)
    gap = 2 * 0.5 / math.sqrt(2)
    assert float(SL(2).haar_density(y)) == pytest.approx(math.sinh(gap) / gap, **ROUNDED)


@pytest.mark.parametrize("group", [GLPlus(2), SL(3)], ids=str)
def test_gradients_of_the_density(group):
    y = 0.5 * torch.randn(3, group.dimension, dtype=torch.float64, generator=generator())
    y = torch.cat([y, 0 * y[:1]]).requires_grad_()
    assert torch.autograd.gradcheck(group.haar_density, y)


def bump(group: LinearGroup, g: Tensor) -> Tensor:
    c = group.coordinates(g)
    y, angle = c[:, : group.symmetric_dimension], c[:, -1]
    return torch.exp(-y.square().sum(-1) / 0.32) * (1 + 0.5 * torch.cos(angle - 0.3))


def ratio_of_sums(over: Tensor, under: Tensor) -> tuple[float, float]:
    """A ratio of sums over draws, and its standard error."""
    total = under.sum()
    ratio = over.sum() / total
    return float(ratio), float((over - ratio * under).norm() / total)


def translation_ratio(samples: GroupSamples, weight: Tensor) -> tuple[float, float]:
    """Integral of the moved function over its own, from the same draws, and its standard error."""
    k = torch.tensor([[1.3, 0.35], [-0.2, 0.85]], dtype=torch.float64)
    if samples.group == SL(2):
        k = k / torch.linalg.det(k).sqrt()
    still = weight * bump(samples.group, samples.h)
    return ratio_of_sums(weight * bump(samples.group, k @ samples.h), still)


@pytest.mark.parametrize(
    ("group", "integral", "unweighted"), [(GLPlus(2), 1.1237, 0.900), (SL(2), 1.1203, 0.910)]
)
def test_haar_integrals_are_invariant(group, integral, unweighted):
    samples = paired(group, DRAWS, 0.7)
    ratio, error = translation_ratio(samples, samples.weight)
    assert ratio == pytest.approx(1.0, abs=4 * error)
    assert error < 0.005
    few = samples.select(torch.arange(4000))
    ratio, error = translation_ratio(few, few.weight)
    assert ratio == pytest.approx(1.0, abs=4 * error)
    assert error < 0.02
    # the specification states the integral up to the volume of the window of Gaussian width 0.4
    volume = (0.4 * math.sqrt(math.tau)) ** group.symmetric_dimension
    still = samples.weight * bump(group, samples.h)
    error = float((still - still.mean()).norm() / volume)
    assert float(still.sum() / volume) == pytest.approx(integral, abs=4 * error)
    # negative control: without the density of the draws the integral moves
    ratio, error = translation_ratio(samples, torch.full_like(samples.weight, 1 / DRAWS))
    assert ratio == pytest.approx(unweighted, abs=4 * error)


def test_affine_measures():
    group, linear = Affine(GLPlus(2)), GLPlus(2)
    source = generator(2)
    samples = pair_samples(
        sample_stretches(linear, DRAWS, 0.45, generator=source),
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

    def summed(g: Tensor) -> Tensor:
        spread = torch.exp(-g[:, :2, 2].square().sum(-1) / 0.8)
        return spread * bump(linear, g[:, :2, :2])

    for moved, weight, expected in (
        (g0 @ g, left, 1.0),
        (g @ g0, left, det),
        (g0 @ g, right, 1 / det),
        (g @ g0, right, 1.0),
    ):
        ratio, error = ratio_of_sums(weight * summed(moved), weight * summed(g))
        assert ratio == pytest.approx(expected, abs=4 * error)
        assert error < 0.01  # far less than what tells the measures apart


def test_haar_rotations_of_space():
    h = haar_rotations(3, 100_000, generator=generator()).h
    trace = h.diagonal(dim1=1, dim2=2).sum(-1)
    moments = [float((trace**k).mean()) for k in (1, 2, 3, 4)]
    # Fourth powers have variance 91 - 9; five standard errors.
    assert moments == pytest.approx([0, 1, 1, 3], abs=5 * math.sqrt(82 / 100_000))
    angle = SO(3).coordinates(h).norm(dim=1)
    # pi / 2 + 2 / pi, with a deviation of 0.65; five standard errors.
    assert float(angle.mean()) == pytest.approx(2.207416, abs=5 * 0.65 / math.sqrt(100_000))
    count = torch.histc(angle, 20, 0, math.pi) / len(h)
    edges = torch.linspace(0, math.pi, 21, dtype=torch.float64)
    want = torch.diff(edges - edges.sin()) / math.pi  # density (1 - cos) / pi
    assert float((count - want).abs().max()) < 0.005


def test_haar_elements_of_the_plane_have_no_mean_and_both_determinants():
    g = O(2).haar(100_000, generator=generator())
    assert float(g.mean(0).abs().max()) < 0.02
    error = 5 * 0.5 / math.sqrt(100_000)  # five standard errors
    assert float((torch.linalg.det(g) > 0).double().mean()) == pytest.approx(0.5, abs=error)
