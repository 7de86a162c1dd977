"""Group convolution against closed forms, and its equivariance, determinants included."""

import math

import pytest
import torch
from torch import Tensor

from equigeo.affine import (
    GroupConv,
    KernelSpec,
    LiftConv,
    Quadrature,
    SeparableGroupConv,
    WindowWarning,
)
from equigeo.groups import (
    SL,
    SO,
    GLPlus,
    GroupSamples,
    LinearGroup,
    equidistant_rotations,
    grid_stretches,
    haar_rotations,
    multiply_samples,
    pair_samples,
    sample_stretches,
)
from equigeo.testing import tolerance
from tests.affine.analytic_features import (
    GaussianMixture,
    analytic_conv,
    convolve_at,
    equivariance_error,
    stretch,
    tensor,
)


def one(group: LinearGroup, h: Tensor) -> GroupSamples:
    return GroupSamples.from_elements(group, h[None], tensor([1.0]))


def quadrature(group: LinearGroup, extent: float, points: int, angles: int) -> GroupSamples:
    stretches = grid_stretches(group, extent, points)
    return multiply_samples(stretches, equidistant_rotations(angles))


def test_value_over_rotations() -> None:
    h = SO(2).from_coordinates(tensor([0.5]))
    x = tensor([[0.2, -0.1]])
    value = convolve_at(
        analytic_conv(SO(2), 31),
        GaussianMixture.standard(),
        x,
        one(SO(2), h),
        equidistant_rotations(16),
    )
    assert float(value) == pytest.approx(0.01931669032, abs=1e-11)  # eleven decimals


@pytest.mark.full
def test_value_over_sl2() -> None:
    x, h = tensor([[0.2, -0.1]]), tensor([[1.2, 0.4], [-0.3, 0.9]]) / math.sqrt(1.2)
    a = tensor([[1.25, 0.3], [0.1, 0.824]])
    conv, f, samples = (
        analytic_conv(SL(2), 31),
        GaussianMixture.standard(),
        quadrature(SL(2), 1.5, 13, 16),
    )
    value = convolve_at(conv, f, x, one(SL(2), h), samples)
    # Stretches are one deviation of the kernel apart, along two axes: 2 exp(-2 pi^2) for each.
    assert float(value) == pytest.approx(0.005939353736, rel=4 * math.exp(-2 * math.pi**2))
    moved = convolve_at(conv, f.moved(a), x @ a.mT, one(SL(2), a @ h), samples)
    # The stretches end 3.7 deviations from the moved element: 1e-4 of the kernel lie beyond, where
    # the features are small. What is lost is 2e-6 of the value.
    assert float(moved) == pytest.approx(0.005939353736, abs=2e-8)


@pytest.mark.full
@pytest.mark.parametrize("size", [0.1, 0.3, 0.6])
def test_quadrature_over_sl2_is_equivariant(size: float) -> None:
    samples = quadrature(SL(2), 1.2, 7, 8)
    error = equivariance_error(analytic_conv(SL(2)), samples, stretch(size, SL(2)), points=8)
    assert len(samples) == 392
    assert error <= (5e-3 if size == 0.6 else 2e-3)


def test_determinants_are_where_they_belong() -> None:
    samples = quadrature(GLPlus(2), 1.0, 5, 6)
    a = 1.25 * stretch(0.1, SL(2))
    right = equivariance_error(analytic_conv(GLPlus(2)), samples, a, points=3)
    conv = analytic_conv(GLPlus(2))
    conv.quadrature = Quadrature(mean=False, measure=True)
    wrong = equivariance_error(conv, samples, a, points=3)
    assert right < 0.05  # stretches are 0.5, two deviations of the kernel, apart
    assert wrong > 0.15  # the determinant that is missing is 1.25^2


@pytest.mark.parametrize(("count", "bound"), [(4, 0.09), (6, 5e-3), (8, 2e-4), (10, 2e-5)])
def test_equidistant_rotations_converge_spectrally(count: int, bound: float) -> None:
    a = stretch(0.0, SO(2))
    error = equivariance_error(analytic_conv(SO(2)), equidistant_rotations(count), a)
    assert error < bound


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::equigeo.affine.WindowWarning")
@pytest.mark.parametrize("size", [0.1, 0.3, 0.6])
def test_weighted_samples_of_sl2_converge(size: float) -> None:
    error = equivariance_error(
        analytic_conv(SL(2)), random_sl2(4096, 0.7), stretch(size, SL(2)), points=8
    )
    assert error < 0.06


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::equigeo.affine.WindowWarning")
def test_samples_without_weights_do_not_converge() -> None:
    few, many = (
        equivariance_error(
            analytic_conv(SL(2)),
            unweighted(random_sl2(count, 0.158)),
            stretch(0.3, SL(2)),
            points=8,
        )
        for count in (256, 4096)
    )
    assert many > 0.8 * few > 0.2


def random_sl2(count: int, std: float) -> GroupSamples:
    generator = torch.Generator().manual_seed(1)
    stretches = sample_stretches(SL(2), count, std, generator=generator)
    return pair_samples(stretches, haar_rotations(2, count, generator=generator))


def unweighted(samples: GroupSamples) -> GroupSamples:
    weight = torch.full_like(samples.weight, 1 / len(samples))
    return GroupSamples.from_coordinates(samples.group, samples.coordinates, weight)


# --- What holds to rounding -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", [GroupConv, SeparableGroupConv])
def test_chunks_change_nothing(kind: type) -> None:
    samples = quadrature(SL(2), 0.4, 2, 3)
    x = torch.rand(2, 3, len(samples), 7, 7, dtype=torch.float64, requires_grad=True)
    torch.manual_seed(0)
    layer = kind(SL(2), 3, 4, KernelSpec(3, window="none")).double()
    gradients = []
    for chunk in (None, 5):
        layer.quadrature = Quadrature(chunk=chunk)
        with pytest.warns(WindowWarning, match="need inf"):
            y, _ = layer(x, samples)
        gradients.append((y, *torch.autograd.grad(y.square().sum(), [x, *layer.parameters()])))
    # Parameters of the kernel gather 12 * 12 pairs of samples, its 9 pixels and 2 * 5 * 5 outputs.
    close = tolerance(torch.float64, terms=12 * 12 * 9 * 50)
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, **close)


@pytest.mark.parametrize("kind", [GroupConv, SeparableGroupConv])
def test_order_of_samples_changes_nothing(kind: type) -> None:
    samples, order = equidistant_rotations(6), torch.tensor([3, 1, 0, 5, 2, 4])
    x = torch.rand(2, 3, 6, 7, 7, dtype=torch.float64)
    layer = kind(SO(2), 3, 4, KernelSpec(3)).double()
    shuffled, _ = layer(x[:, :, order], samples.select(order), samples)
    torch.testing.assert_close(
        shuffled, layer(x, samples)[0], **tolerance(torch.float64, terms=3 * 6 * 9)
    )


@pytest.mark.filterwarnings("ignore::equigeo.affine.WindowWarning")
@pytest.mark.parametrize("network", ["siren", "gabor", "rbf"])
@pytest.mark.parametrize("kind", [GroupConv, SeparableGroupConv])
def test_quarter_turns_are_exact_on_samples_that_hold_half_turns(kind: type, network: str) -> None:
    stretched = multiply_samples(grid_stretches(SL(2), 0.3, 3), equidistant_rotations(4))
    quarter = equidistant_rotations(4).h[1]
    for samples in (*map(equidistant_rotations, (4, 8, 12)), stretched):
        torch.manual_seed(0)
        spec = KernelSpec(3, network=network, stretch_reach=3.0)
        lift = LiftConv(samples.group, 1, 2, spec).double()
        conv = kind(samples.group, 2, 3, spec).double()
        x = torch.rand(1, 1, 7, 7, dtype=torch.float64)
        expected = conv(*lift(x, samples))[0].rot90(1, (-2, -1))
        turned = conv(*lift(x.rot90(1, (-2, -1)), samples.act(quarter)))[0]
        assert float(expected.detach().std()) > 1e-4  # not zero by weights or windows
        close = tolerance(torch.float64, terms=9 * 2 * len(samples))
        torch.testing.assert_close(turned, expected, **close)
