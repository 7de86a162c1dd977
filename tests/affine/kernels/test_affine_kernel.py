"""Kernels as functions of relative coordinates: what they read, windows, centres."""

from __future__ import annotations

import math

import pytest
import torch

from equigeo.affine import AffineKernel, KernelSpec
from equigeo.affine.kernels.affine_kernel import embed_rotation
from equigeo.groups import SL, SO, GLPlus
from equigeo.testing import tolerance


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
@pytest.mark.parametrize("group", [SO(2), GLPlus(2), SO(3)], ids=str)
def test_centres_are_the_same_every_time(group, spatial: bool) -> None:
    spec = KernelSpec(network="rbf", group_centers=7)
    torch.manual_seed(0)
    first = AffineKernel(group, 3, spec, spatial=spatial).network.centers
    torch.manual_seed(1)
    assert torch.equal(AffineKernel(group, 3, spec, spatial=spatial).network.centers, first)
    assert len(first) == 7


def test_kernels_read_something() -> None:
    with pytest.raises(ValueError, match="must read space, the group, or both"):
        AffineKernel(SO(2), 3, KernelSpec(), spatial=False, grouped=False)
