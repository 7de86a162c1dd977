"""Layers under the public helper: quarter turns of images permute the samples of the result."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from equigeo.affine import (
    AffineResNet,
    AffineResNetConfig,
    GroupConv,
    GroupPool,
    HeadConfig,
    KernelSpec,
    LiftConv,
    ProjectConv,
    SamplesConfig,
    SeparableGroupConv,
    StagesConfig,
    TensorReadout,
)
from equigeo.groups import SO, GroupSamples, equidistant_rotations
from equigeo.reps import Regular, TensorRep, Trivial
from equigeo.testing import assert_equivariant, equivariance_error

EIGHT = equidistant_rotations(8)
QUARTERS = equidistant_rotations(4).h


@dataclass(frozen=True)
class Image:
    """Pixels that quarter turns permute."""

    values: Tensor

    def act(self, g: Tensor) -> Image:
        turns = round(float(torch.atan2(g[1, 0], g[0, 0])) / (torch.pi / 2)) % 4
        return Image(self.values.rot90(turns, (-2, -1)))


class Layers(torch.nn.Module):
    """Lifting and a convolution on circular images; features on the group without pixels."""

    def __init__(self, kind: type = GroupConv) -> None:
        super().__init__()
        torch.manual_seed(0)
        options = {"padding": 1, "padding_mode": "circular"}
        spec = KernelSpec(3, continuous_rotation=True)
        self.lift = LiftConv(SO(2), 1, 4, spec, **options)
        self.conv = kind(SO(2), 4, 6, spec, **options)
        self.double()

    def forward(self, image: Image, samples: GroupSamples = EIGHT) -> Tensor:
        features, samples = self.lift(image.values, samples)
        return self.conv(features.sin(), samples)[0]


def image() -> Image:
    generator = torch.Generator().manual_seed(0)
    return Image(torch.rand(1, 1, 9, 9, dtype=torch.float64, generator=generator))


@pytest.mark.parametrize("kind", [GroupConv, SeparableGroupConv])
def test_features_are_regular(kind: type) -> None:
    layers = Layers(kind)
    assert_equivariant(
        lambda x: layers(x).detach().amax((-2, -1)),
        None,
        Regular(EIGHT),
        inputs=[image()],
        elements=QUARTERS,
    )


def test_five_samples_break_the_law() -> None:
    layers, five = Layers(), equidistant_rotations(5)
    pool = GroupPool("max")
    error = equivariance_error(
        lambda x: pool(layers(x, five), five).detach(),
        None,
        Trivial(SO(2), 6),
        inputs=[image()],
        elements=QUARTERS,
    )
    assert error > 0.005


@pytest.mark.parametrize("kind", ["max", "mean"])
def test_pooled_features_are_invariant(kind: str) -> None:
    layers, pool = Layers(), GroupPool(kind)
    assert_equivariant(
        lambda x: pool(layers(x), EIGHT).detach(),
        None,
        Trivial(SO(2), 6),
        inputs=[image()],
        elements=QUARTERS,
    )


def test_projected_features_are_scalar_fields() -> None:
    layers, project = Layers(), ProjectConv(SO(2), 6, 2, KernelSpec(3)).double()
    assert_equivariant(
        lambda x: project(layers(x), EIGHT).detach().square().sum((-2, -1)),
        None,
        Trivial(SO(2), 2),
        inputs=[image()],
        elements=QUARTERS,
    )


def test_read_out_gives_vectors() -> None:
    layers, rep = Layers(), TensorRep(SO(2), up=1)
    readout = TensorReadout(rep)

    def strongest(x: Image) -> Tensor:
        """Vectors of pixels, the long ones counting more: a plain sum cancels."""
        vectors = readout(layers(x), EIGHT).detach()
        return (vectors * vectors.square().sum(-1, keepdim=True)).sum((-3, -2))

    assert_equivariant(
        strongest,
        None,
        rep,
        inputs=[image()],
        elements=QUARTERS,
    )


def test_network_without_a_window_is_invariant() -> None:
    torch.manual_seed(0)
    config = AffineResNetConfig(
        5,
        samples=SamplesConfig(count=8),
        stages=StagesConfig(channels=(4,), pool=(True,)),
        head=HeadConfig(features=6, window=180.0),
    )
    model = AffineResNet(config).double().eval()
    pixels = torch.zeros(1, 1, 24, 24, dtype=torch.float64)
    pixels[..., 6:17, 9:15] = torch.rand(11, 6, dtype=torch.float64)
    assert_equivariant(
        lambda x: model(x.values).detach(),
        None,
        Trivial(SO(2), 5),
        inputs=[Image(pixels)],
        elements=QUARTERS,
    )
