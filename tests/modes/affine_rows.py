"""Rows of the layers of :mod:`equigeo.affine`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from equigeo import affine
from equigeo.groups import SO, GroupSamples, Similarity, equidistant_rotations, haar_rotations
from equigeo.reps import TensorRep
from tests.modes.row import Row, apply, beside, randn

PLANE, SPACE = SO(2), SO(3)


def plane(count: int = 4) -> GroupSamples:
    return equidistant_rotations(count)


def space(count: int = 3) -> GroupSamples:
    return haar_rotations(3, count, generator=torch.Generator().manual_seed(0))


def affine_rows() -> list[Row]:
    spec = affine.KernelSpec(size=3)
    image, lifted = (2, 2, 7, 7), (2, 2, 4, 7, 7)
    turns, rotations = plane(), space()
    near = affine.PointNeighborhood(radius=2.5, k=4)

    def conv(layer: nn.Module, x: Tensor) -> Any:
        return layer(x, beside(turns, x))

    def convolve_cloud(layer: nn.Module, x: Tensor, positions: Tensor) -> Any:
        return layer(x, positions, beside(rotations, x))

    def read_out(layer: nn.Module, x: Tensor) -> Any:
        return layer(x, beside(turns, x))

    return [
        _row("LiftConv", lambda: affine.LiftConv(PLANE, 2, 3, spec), randn(image), conv),
        _row("GroupConv", lambda: affine.GroupConv(PLANE, 2, 3, spec), randn(lifted), conv),
        _row(
            "SeparableGroupConv",
            lambda: affine.SeparableGroupConv(PLANE, 2, 3, spec),
            randn(lifted),
            conv,
        ),
        _row("ProjectConv", lambda: affine.ProjectConv(PLANE, 2, 3, spec), randn(lifted), conv),
        _row("GroupPool", lambda: affine.GroupPool("mean"), randn(lifted), conv),
        _row("SampleBatchNorm", lambda: affine.SampleBatchNorm(2), randn(lifted), apply),
        _row("SampleLayerNorm", lambda: affine.SampleLayerNorm(), randn(lifted), apply),
        _row(
            "TensorReadout",
            lambda: affine.TensorReadout(TensorRep(PLANE, 1, 0)),
            randn((2, 2, 4)),
            read_out,
        ),
        _row(
            "MomentFrame",
            lambda: affine.MomentFrame(size=8),
            _images((2, 1, 12, 12)),
            apply,
            kinks=True,
        ),
        _row(
            "AffineKernel",
            lambda: affine.AffineKernel(PLANE, 3, spec),
            randn((5, 2), (5, 1)),
            apply,
        ),
        _row("GaborKernel", lambda: affine.GaborKernel(2, 3, hidden=4), randn((5, 2)), apply),
        _row("SirenKernel", lambda: affine.SirenKernel(2, 3, hidden=4), randn((5, 2)), apply),
        _row("RBFKernel", _rbf, randn((5, 2)), apply),
        _row(
            "PointLiftConv",
            lambda: affine.PointLiftConv(SPACE, 2, 3, neighborhood=near, rank=4),
            randn((2, 2, 6), (2, 6, 3)),
            convolve_cloud,
        ),
        _row(
            "PointGroupConv",
            lambda: affine.PointGroupConv(SPACE, 2, 3, neighborhood=near, rank=4),
            randn((2, 2, 3, 6), (2, 6, 3)),
            convolve_cloud,
        ),
        # Axes have no signs, and those of a card are others.
        _row(
            "PointFrame",
            lambda: affine.PointFrame(Similarity(3)),
            randn((2, 9, 3)),
            lambda layer, x: layer(x).square(),
        ),
        _row("AffineResNet", _resnet, _images((2, 1, 24, 24)), apply, kinks=True),
        _row("AffinePointNet", _point_net, randn((2, 12, 3)), apply),
    ]


def _row(
    name: str,
    make: Callable[[], nn.Module],
    inputs: Callable[[], tuple[Tensor, ...]],
    call: Callable[..., Any],
    *,
    kinks: bool = False,
) -> Row:
    return Row(f"affine.{name}", make, inputs, call, f"affine.{name}", kinks=kinks)


def _rbf() -> nn.Module:
    centers = torch.randn(4, 2, generator=torch.Generator().manual_seed(0))
    return affine.RBFKernel(centers, 0.7, 3)


def _images(shape: tuple[int, ...]) -> Callable[[], tuple[Tensor, ...]]:
    """Dark at the rim, as a digit is."""

    def inputs() -> tuple[Tensor, ...]:
        axis = torch.linspace(-2, 2, shape[-1], dtype=torch.float64)
        blob = torch.exp(-(axis[:, None] ** 2) - 2 * (axis - 0.3) ** 2)
        noise = torch.rand(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        return (blob * (0.5 + noise),)

    return inputs


def _resnet() -> nn.Module:
    return affine.AffineResNet(
        affine.AffineResNetConfig(
            3,
            samples=affine.SamplesConfig(count=4),
            stages=affine.StagesConfig(channels=(2, 3)),
            head=affine.HeadConfig(features=4),
        )
    )


def _point_net() -> nn.Module:
    return affine.AffinePointNet(
        affine.AffinePointNetConfig(
            3, centers=(6, 3), neighbors=(4, 3), channels=(4, 5, 6), rank=3, gaussians=2
        )
    )
