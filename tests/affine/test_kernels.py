"""Kernels: what they read, where they end, and their networks."""

import math

import pytest
import torch

from equigeo.affine import AffineKernel, KernelSpec
from equigeo.affine.kernels import (
    GaborKernel,
    RBFKernel,
    SirenKernel,
    embed_rotation,
    kernel_grid,
)
from equigeo.affine.samples import relative_coordinates, relative_points
from equigeo.groups import SL, SO, GLPlus, GroupSamples, O, equidistant_rotations
from equigeo.testing import tolerance
from tests.affine.test_point_layers import draw, random
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
    values = [
        AffineKernel(GLPlus(2), 3, KernelSpec(window=name), grouped=False)(far).detach()
        for name in ("sigmoid", "none")
    ]
    assert all(bool((value != 0).all()) for value in values)
    disc = AffineKernel(GLPlus(2), 3, KernelSpec(window="disc"), grouped=False)
    assert bool((disc(far) == 0).all())


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


def test_only_compact_windows_end() -> None:
    assert KernelSpec(stretch_reach=0.4).reach == 0.4
    assert KernelSpec(window="disc").reach == float("inf")


def test_sums_over_cells_are_midpoint_integrals() -> None:
    grid = kernel_grid(40, 2, 1.5)
    volume = (3.0 / 40) ** 2
    integral = torch.exp(-4 * grid.square().sum(1)).sum() * volume
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
        samples = GroupSamples.from_elements(group, h, torch.ones(len(h), dtype=dtype))
        one = samples.select(torch.tensor([0]))
        one = GroupSamples.from_elements(group, torch.eye(n, dtype=dtype)[None], one.weight)
        s = relative_coordinates(one, samples)[0]
        torch.testing.assert_close(
            s, math.pi * axis.abs().expand_as(s).to(dtype), **tolerance(dtype)
        )
        there = group.from_coordinates(s)
        torch.testing.assert_close(there, h, **tolerance(dtype))


def test_values_are_linear_in_the_weights() -> None:
    kernel, x = RBFKernel(kernel_grid(3, 2), 0.5, 4), torch.rand(6, 2)
    before = kernel(x).detach()
    with torch.no_grad():
        kernel.weight *= 3
    torch.testing.assert_close(kernel(x), 3 * before)


def test_centres_are_in_no_checkpoint() -> None:
    assert list(RBFKernel(kernel_grid(3, 2), 0.5, 4).state_dict()) == ["weight"]


def test_waves_vanish_far_from_their_ridges() -> None:
    torch.manual_seed(0)
    kernel = GaborKernel(2, 3, layers=1, sigma=50.0)
    far = kernel(torch.full((1, 2), 1e3))
    torch.testing.assert_close(far, kernel.last.bias.expand(1, 3))


def test_values_have_the_variance_that_convolutions_want() -> None:
    torch.manual_seed(0)
    kernel = SirenKernel(3, 4000, fan_in=25)
    values = kernel(2 * torch.rand(50, 3) - 1)
    # Three standard errors of a mean of 60 squared sines, 1 / sqrt(120) of it each.
    assert float(values.detach().var()) == pytest.approx(1 / 25, rel=0.3)


def test_wrong_arguments_raise():
    refused(
        "must read space, the group, or both",
        AffineKernel,
        SO(2),
        3,
        KernelSpec(),
        spatial=False,
        grouped=False,
    )
    refused("network must be", KernelSpec, network="mlp")
    refused("window must be", KernelSpec, window="box")
    refused("padding_mode must be", KernelSpec, padding_mode="reflect")
    refused("extent must be positive", KernelSpec, extent=0.0)
    refused("must be positive", kernel_grid, 0, 2)
    refused(
        "samples must be of one group",
        relative_coordinates,
        draw(GLPlus(3)),
        equidistant_rotations(4),
    )
    refused("centers must be", RBFKernel, torch.zeros(0, 2), 1.0, 3)
    refused("must be positive", RBFKernel, torch.zeros(1, 2), 0.0, 3)
    refused("layers must be positive", GaborKernel, 2, 3, layers=0)
    refused("hidden must be positive", SirenKernel, 2, 3, hidden=0)
