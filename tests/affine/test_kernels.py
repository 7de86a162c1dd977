"""Kernels, and weights, windows, norms and pools of samples."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from equigeo.affine import (
    AffineKernel,
    GroupConv,
    GroupPool,
    KernelSpec,
    LiftConv,
    Quadrature,
    SampleBatchNorm,
    SampleLayerNorm,
    WindowWarning,
)
from equigeo.affine.kernels import (
    GaborKernel,
    RBFKernel,
    SirenKernel,
    embed_rotation,
    kernel_grid,
)
from equigeo.affine.samples import check_window, relative_coordinates, relative_points, sample_norm
from equigeo.groups import (
    SL,
    SO,
    GLPlus,
    GroupSamples,
    O,
    equidistant_rotations,
    grid_stretches,
    multiply_samples,
)
from equigeo.testing import tolerance
from tests.affine.test_point_layers import EXACT, draw, random
from tests.wrong_inputs import refused


def test_compact_windows_end_in_space_and_stretch_but_not_in_angle() -> None:
    kernel = AffineKernel(SL(2), 3, KernelSpec(stretch_reach=0.5, continuous_rotation=True))
    u = torch.tensor([[0.3, 0.2], [1.0, 0.1], [0.3, 0.2], [0.3, 0.2]])
    half = math.pi
    s = torch.tensor([[0.1, 0.1, half], [0.0, 0.0, 0.0], [0.4, 0.4, 0.0], [0.1, 0.1, -half]])
    values = kernel(u, s).detach()
    assert bool((values[0] != 0).all())
    assert bool((values[1:3] == 0).all())
    torch.testing.assert_close(values[3], values[0], rtol=0, atol=1e-4)  # one half turn


def test_published_windows_do_not_end() -> None:
    far = torch.full((1, 2), 2.0)
    for window, ends in (("sigmoid", False), ("none", False), ("disc", True)):
        kernel = AffineKernel(GLPlus(2), 3, KernelSpec(window=window), grouped=False)
        assert bool((kernel(far) == 0).all()) == ends
        assert ends or bool((kernel(far) != 0).all())
    assert KernelSpec(stretch_reach=0.4).reach == 0.4
    assert KernelSpec(window="disc").reach == float("inf")


@pytest.mark.parametrize(("group", "width"), [(SO(2), 2), (SL(2), 4), (SO(3), 9), (GLPlus(3), 15)])
def test_rotations_are_embedded_without_a_jump(group, width: int) -> None:
    s = torch.zeros(2, group.dimension, dtype=torch.float64)
    s[:, -1] = torch.tensor([math.pi, -math.pi], dtype=torch.float64)
    embedded = embed_rotation(group, s)
    assert embedded.shape == (2, width)
    torch.testing.assert_close(embedded[0], embedded[1], **tolerance(torch.float64))


@pytest.mark.parametrize("spatial", [True, False])
@pytest.mark.parametrize("group", [SO(2), O(2), GLPlus(2), SO(3)], ids=str)
def test_centres_are_the_same_every_time(group, spatial: bool) -> None:
    spec = KernelSpec(network="rbf", group_centers=7)
    torch.manual_seed(0)
    first = AffineKernel(group, 3, spec, spatial=spatial).network.centers
    torch.manual_seed(1)
    assert torch.equal(AffineKernel(group, 3, spec, spatial=spatial).network.centers, first)
    assert len(first) == 7


def test_cells_of_the_grid_fill_the_cube() -> None:
    spec = KernelSpec(7, extent=1.4)
    assert torch.equal(spec.grid(3), kernel_grid(7, 3, 1.4))
    assert len(spec.grid(3)) * spec.pixel_volume(3) == pytest.approx(2.8**3)
    integral = torch.exp(-4 * kernel_grid(40, 2, 1.5).square().sum(1)).sum() * (3.0 / 40) ** 2
    expected = torch.pi / 4 * torch.erf(torch.tensor(3.0)).double() ** 2
    # Each axis has step^2 / 24 times the change of slope, 24 exp(-9), over the integral: 8e-7.
    torch.testing.assert_close(integral, expected, rtol=2e-6, atol=0)


@pytest.mark.parametrize("group", [GLPlus(3), O(3)], ids=str)
def test_left_multiplication_changes_nothing(group) -> None:
    outputs, inputs = draw(group, 3), draw(group, 4, seed=1)
    g, points = draw(group, 1, seed=2).h[0] @ group.components()[-1], random(6, 3)
    outputs = outputs.act(g.inverse())  # the components of outputs and inputs differ
    moved = relative_coordinates(outputs.act(g), inputs.act(g))
    if group.has_reflections:
        assert bool((moved[..., -1] == -1).all())
    close = {"rtol": 0, "atol": 1e-10}
    torch.testing.assert_close(moved, relative_coordinates(outputs, inputs), **close)
    seen = relative_points(outputs.act(g), points @ g.mT)
    torch.testing.assert_close(seen, relative_points(outputs, points), **close)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [2, 3])
def test_one_side_of_a_half_turn_is_taken_whatever_rounding_says(n: int, dtype) -> None:
    group, eye = SO(n), torch.eye(3, dtype=torch.float64)
    steps = torch.tensor([[-4.0], [-1.0], [0.0], [1.0], [4.0]], dtype=torch.float64)
    for axis in eye[:1, :1] if n == 2 else torch.cat([eye, -eye]):
        angles = math.pi + steps * torch.finfo(dtype).eps
        h = group.from_coordinates(angles * axis).to(dtype)
        weight = torch.ones(len(h), dtype=dtype)
        samples = GroupSamples.from_elements(group, h, weight)
        one = GroupSamples.from_elements(group, torch.eye(n, dtype=dtype)[None], weight[:1])
        s = relative_coordinates(one, samples)[0]
        half = math.pi * axis.abs().expand_as(s).to(dtype)
        torch.testing.assert_close(s, half, **tolerance(dtype))
        torch.testing.assert_close(group.from_coordinates(s), h, **tolerance(dtype))


def test_values_are_linear_in_the_weights_which_alone_are_saved() -> None:
    kernel, x = RBFKernel(kernel_grid(3, 2), 0.5, 4), torch.rand(6, 2)
    before = kernel(x).detach()
    with torch.no_grad():
        kernel.weight *= 3
    torch.testing.assert_close(kernel(x), 3 * before)
    assert list(kernel.state_dict()) == ["weight"]


def test_waves_have_the_variance_of_convolutions_and_vanish_far_from_ridges() -> None:
    torch.manual_seed(0)
    values = SirenKernel(3, 4000, fan_in=25)(2 * torch.rand(50, 3) - 1)
    # Three standard errors of a mean of 60 squared sines, 1 / sqrt(120) of it each.
    assert float(values.detach().var()) == pytest.approx(1 / 25, rel=0.3)
    kernel = GaborKernel(2, 3, layers=1, sigma=50.0)
    far = kernel(torch.full((1, 2), 1e3))
    torch.testing.assert_close(far, kernel.last.bias.expand(1, 3))


def test_wrong_arguments_raise():
    neither = {"spatial": False, "grouped": False}
    refused("must read space, the group, or both", AffineKernel, SO(2), 3, KernelSpec(), **neither)
    refused("network must be", KernelSpec, network="mlp")
    refused("window must be", KernelSpec, window="box")
    refused("padding_mode must be", KernelSpec, padding_mode="reflect")
    refused("extent must be positive", KernelSpec, extent=0.0)
    refused("must be positive", kernel_grid, 0, 2)
    pair = draw(GLPlus(3)), equidistant_rotations(4)
    refused("samples must be of one group", relative_coordinates, *pair)
    refused("centers must be", RBFKernel, torch.zeros(0, 2), 1.0, 3)
    refused("must be positive", RBFKernel, torch.zeros(1, 2), 0.0, 3)
    refused("layers must be positive", GaborKernel, 2, 3, layers=0)
    refused("hidden must be positive", SirenKernel, 2, 3, hidden=0)


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


def test_large_windows_and_groups_without_stretches_are_silent() -> None:
    inputs, outputs = sl2(1.5), sl2(0.3)
    layer = GroupConv(SL(2), 1, 1, KernelSpec(3, stretch_reach=0.5))
    layer(torch.rand(1, 1, len(inputs), 5, 5), inputs, outputs)
    rotations = equidistant_rotations(4)
    assert check_window(rotations, rotations, float("inf")) is None
    assert check_window(sl2(1.0), sl2(1.0), 0.0) is None


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
    refused("chunk must be", Quadrature, chunk=0)


@pytest.mark.filterwarnings("ignore::equigeo.affine.WindowWarning")
def test_pools_are_means_of_measures_or_maxima_of_fields() -> None:
    samples, x = draw(GLPlus(3)), random(2, 4, 3, 5, 6)
    field = torch.einsum("bcnij,n->bcij", x, samples.mean_weight)
    of_functions = GroupPool("mean")(x, samples)
    of_measures = GroupPool("mean", measure=True)(x, samples)
    torch.testing.assert_close(of_measures, field.mean((2, 3)), **EXACT)
    assert float((of_functions - of_measures).abs().max()) > 1e-3
    torch.testing.assert_close(GroupPool("mean", space=False)(x, samples), field, **EXACT)
    assert torch.equal(GroupPool("max", space=False)(x, samples), x.amax(2))


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
    norm = sample_norm("batch", 4)
    assert isinstance(norm, SampleBatchNorm)
    y = norm.double()(x)
    moments = [y.mean((0, 2, 3, 4)), y.var((0, 2, 3, 4), unbiased=False)]
    torch.testing.assert_close(moments[0], torch.zeros(4).double(), **CLOSE)
    # The norm adds 1e-5 to a variance of about nine.
    torch.testing.assert_close(moments[1], torch.ones(4).double(), rtol=0, atol=2e-6)
    order = torch.randperm(5)
    shuffled = SampleBatchNorm(4).double()(x[:, :, order])
    torch.testing.assert_close(shuffled, y[:, :, order], **CLOSE)
    # channels innermost, then samples
    inner = x.permute(0, 3, 4, 2, 1).contiguous().permute(0, 4, 3, 1, 2)
    assert norm(inner).stride() == inner.stride()


def test_layer_norm_treats_each_image_by_itself() -> None:
    x, norm = torch.randn(3, 4, 5, 6, 7, dtype=torch.float64), sample_norm("layer", 3)
    assert isinstance(norm, SampleLayerNorm)
    torch.testing.assert_close(norm(x[1:2]), norm(x)[1:2], **CLOSE)
    # The norm adds 1e-5 to a variance of one, of which the root changes by half.
    torch.testing.assert_close(norm(5 * x), norm(x), rtol=1e-5, atol=0)


def double_last(kernel: AffineKernel) -> None:
    kernel.network.last.register_forward_hook(lambda _, inputs, out: 2 * out)


def double_network(kernel: AffineKernel) -> None:
    kernel.network.register_forward_hook(lambda _, inputs, out: 2 * out)


def wrap_network(kernel: AffineKernel) -> None:
    torch.nn.init.zeros_(kernel.network.last.bias)
    with torch.no_grad():
        kernel.network.last.weight *= 2
    kernel.network = torch.nn.Sequential(kernel.network)


def drop_bias(kernel: AffineKernel) -> None:
    last = torch.nn.Linear(60, 3, bias=False)
    last.weight = torch.nn.Parameter(2 * kernel.network.last.weight.detach())
    kernel.network.last = last


def patch_last(kernel: AffineKernel) -> None:
    before = kernel.network.last.forward
    kernel.network.last.forward = lambda x: 2 * before(x)


@pytest.mark.parametrize("network", ["siren", "gabor"])
@pytest.mark.parametrize(
    "change", [double_last, double_network, wrap_network, drop_bias, patch_last]
)
def test_changed_parts_of_a_kernel_run(network: Any, change: Callable[..., None]) -> None:
    torch.manual_seed(0)
    kernel = AffineKernel(SO(2), 3, KernelSpec(3, network), grouped=False)
    u, factor = torch.rand(5, 2) - 0.5, torch.rand(5)
    before = kernel(u, factor=factor)
    change(kernel)
    torch.testing.assert_close(kernel(u, factor=factor), 2 * before)


def test_hooks_of_kernels_see_places() -> None:
    layer, x, seen = LiftConv(SO(2), 1, 2, KernelSpec(3)), torch.rand(1, 1, 5, 5), []
    layer.kernel.register_forward_hook(lambda _, inputs, out: seen.append((inputs, out)))
    layer(x, equidistant_rotations(4))
    ((places,), values) = seen[0]
    torch.testing.assert_close(values, layer.kernel(places))
