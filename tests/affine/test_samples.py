"""Weights, windows, norms and pools of samples."""

import pytest
import torch

from equigeo.affine import (
    GroupConv,
    GroupPool,
    KernelSpec,
    Quadrature,
    SampleBatchNorm,
    SampleLayerNorm,
    WindowWarning,
)
from equigeo.affine.samples import check_window, sample_norm
from equigeo.groups import (
    SL,
    GLPlus,
    GroupSamples,
    equidistant_rotations,
    grid_stretches,
    multiply_samples,
)
from equigeo.testing import tolerance
from tests.affine.test_point_layers import EXACT, draw, random


def sl2(extent: float) -> GroupSamples:
    return multiply_samples(grid_stretches(SL(2), extent, 2), equidistant_rotations(2))


def test_window_smaller_than_the_kernel_needs_is_told() -> None:
    layer = GroupConv(SL(2), 1, 1, KernelSpec(3, stretch_reach=0.9))
    samples = sl2(0.5)
    x = torch.rand(1, 1, len(samples), 5, 5)
    with pytest.warns(WindowWarning) as caught:
        layer(x, samples)
    warning = caught[0].message
    assert isinstance(warning, WindowWarning)
    assert warning.missing == pytest.approx(0.9)
    assert warning.inputs == pytest.approx(samples.radius)


def test_window_that_is_large_enough_is_silent() -> None:
    inputs, outputs = sl2(1.5), sl2(0.3)
    layer = GroupConv(SL(2), 1, 1, KernelSpec(3, stretch_reach=0.5))
    layer(torch.rand(1, 1, len(inputs), 5, 5), inputs, outputs)


def test_groups_without_stretches_have_no_window() -> None:
    rotations = equidistant_rotations(4)
    assert check_window(rotations, rotations, float("inf")) is None
    assert check_window(sl2(1.0), sl2(1.0), 0.0) is None


def test_chunk_must_be_positive() -> None:
    with pytest.raises(ValueError, match="chunk must be"):
        Quadrature(chunk=0)


def test_weights_are_those_of_the_affine_group_but_for_measures() -> None:
    samples = multiply_samples(grid_stretches(GLPlus(2), 0.5, 2), equidistant_rotations(3))
    of_measures = Quadrature(measure=True).weights(samples)
    torch.testing.assert_close(of_measures.sum(), torch.ones((), dtype=torch.float64))
    of_functions = Quadrature().weights(samples)
    torch.testing.assert_close(of_functions * torch.linalg.det(samples.h), of_measures)
    sums = Quadrature(mean=False, measure=True).weights(samples)
    assert torch.equal(sums, samples.weight)


@pytest.mark.parametrize("chunk", [None, 1, 3, 50])
def test_chunks_are_joined_in_order(chunk: int | None) -> None:
    samples, seen = equidistant_rotations(7), []

    def angles(part):
        seen.append(len(part))
        return part.coordinates.mT

    found = Quadrature(chunk=chunk).in_chunks(angles, samples, dim=1)
    assert torch.equal(found, samples.coordinates.mT)
    assert sum(seen) == 7
    assert max(seen) == min(chunk or 7, 7)


@pytest.mark.filterwarnings("ignore::equigeo.affine.WindowWarning")
def test_means_of_measures_have_no_determinants() -> None:
    samples, x = draw(GLPlus(3)), random(2, 4, 3, 9)
    expected = torch.einsum("bcnp,n->bc", x, samples.mean_weight) / 9
    torch.testing.assert_close(GroupPool("mean", measure=True)(x, samples), expected, **EXACT)
    of_functions = GroupPool("mean")(x, samples)
    assert float((of_functions - expected).abs().max()) > 1e-3


@pytest.mark.filterwarnings("ignore::equigeo.affine.WindowWarning")
@pytest.mark.parametrize("kind", ["max", "mean"])
def test_fields_keep_their_pixels(kind: str) -> None:
    samples, x = draw(GLPlus(3)), random(2, 4, 3, 5, 6)
    field = GroupPool(kind, space=False)(x, samples)
    assert field.shape == (2, 4, 5, 6)
    if kind == "max":
        assert torch.equal(field, x.amax(2))
    else:
        expected = torch.einsum("bcnij,n->bcij", x, samples.mean_weight)
        torch.testing.assert_close(field, expected, **EXACT)


def test_mean_over_a_window_is_told_of_and_others_are_not() -> None:
    samples, x = draw(GLPlus(3)), random(2, 4, 3, 5, 6)
    with pytest.warns(WindowWarning, match="vanish there") as caught:
        GroupPool("mean")(x, samples)
    warning = caught[0].message
    assert isinstance(warning, WindowWarning)
    assert warning.inputs == pytest.approx(samples.radius)
    GroupPool("max")(x, samples)
    GroupPool("mean")(random(2, 4, 8, 5, 6), equidistant_rotations(8))


CLOSE = tolerance(torch.float64, terms=4 * 5 * 6 * 7)  # numbers of an image


def test_batch_norm_has_one_mean_per_channel() -> None:
    x = torch.randn(3, 4, 5, 6, 7, dtype=torch.float64) * 3 + 2
    y = SampleBatchNorm(4).double()(x)
    moments = [y.mean((0, 2, 3, 4)), y.var((0, 2, 3, 4), unbiased=False)]
    torch.testing.assert_close(moments[0], torch.zeros(4).double(), **CLOSE)
    # The norm adds 1e-5 to a variance of about nine.
    torch.testing.assert_close(moments[1], torch.ones(4).double(), rtol=0, atol=2e-6)
    order = torch.randperm(5)
    shuffled = SampleBatchNorm(4).double()(x[:, :, order])
    torch.testing.assert_close(shuffled, y[:, :, order], **CLOSE)


def test_batch_norm_keeps_the_memory_order() -> None:
    x = torch.rand(2, 5, 6, 3, 4).permute(0, 4, 3, 1, 2)  # channels innermost, then samples
    assert SampleBatchNorm(4)(x).stride() == x.stride()


def test_layer_norm_treats_each_image_by_itself() -> None:
    x = torch.randn(3, 4, 5, 6, 7, dtype=torch.float64)
    y = SampleLayerNorm()(x)
    torch.testing.assert_close(SampleLayerNorm()(x[1:2]), y[1:2], **CLOSE)
    # The norm adds 1e-5 to a variance of one, of which the root changes by half.
    torch.testing.assert_close(SampleLayerNorm()(5 * x), y, rtol=1e-5, atol=0)


def test_norms_are_chosen_by_name() -> None:
    assert isinstance(sample_norm("batch", 3), SampleBatchNorm)
    assert isinstance(sample_norm("layer", 3), SampleLayerNorm)
