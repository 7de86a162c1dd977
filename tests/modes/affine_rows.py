"""Rows of the layers of :mod:`equigeo.affine`."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from equigeo import affine
from equigeo.groups import SO, Similarity, equidistant_rotations, haar_rotations
from equigeo.reps import TensorRep
from tests.modes.row import Row, beside, randn

PLANE, SPACE = SO(2), SO(3)


def affine_rows() -> list[Row]:
    spec = affine.KernelSpec(size=3)
    image, lifted = randn((2, 2, 7, 7)), randn((2, 2, 4, 7, 7))
    turns = equidistant_rotations(4)
    rotations = haar_rotations(3, 3, generator=torch.Generator().manual_seed(0))
    points: dict[str, Any] = {
        "neighborhood": affine.PointNeighborhood(radius=2.5, k=4),
        "rank": 4,
    }

    def conv(layer: nn.Module, x: Tensor) -> Any:
        return layer(x, beside(turns, x))

    def convolve_cloud(layer: nn.Module, x: Tensor, positions: Tensor) -> Any:
        return layer(x, positions, beside(rotations, x))

    convolutions = [
        Row(f"affine.{layer.__name__}", lambda layer=layer: layer(PLANE, 2, 3, spec), inputs, conv)
        for layer, inputs in (
            (affine.LiftConv, image),
            (affine.GroupConv, lifted),
            (affine.SeparableGroupConv, lifted),
            (affine.ProjectConv, lifted),
        )
    ]
    return [
        *convolutions,
        Row("affine.GroupPool", lambda: affine.GroupPool("mean"), lifted, conv),
        Row("affine.SampleBatchNorm", lambda: affine.SampleBatchNorm(2), lifted),
        Row("affine.SampleLayerNorm", lambda: affine.SampleLayerNorm(), lifted),
        Row(
            "affine.TensorReadout",
            lambda: affine.TensorReadout(TensorRep(PLANE, 1, 0)),
            randn((2, 2, 4)),
            conv,
        ),
        Row(
            "affine.MomentFrame",
            lambda: affine.MomentFrame(size=8),
            _images((2, 1, 12, 12)),
            kinks=True,
        ),
        *(
            Row(
                f"affine.AffineKernel {name}",
                lambda name=name: affine.AffineKernel(PLANE, 3, affine.KernelSpec(3, name)),
                randn((5, 2), (5, 1)),
            )
            for name in ("siren", "gabor", "rbf")
        ),
        Row(
            "affine.PointLiftConv",
            lambda: affine.PointLiftConv(SPACE, 2, 3, **points),
            randn((2, 2, 6), (2, 6, 3)),
            convolve_cloud,
        ),
        Row(
            "affine.PointGroupConv",
            lambda: affine.PointGroupConv(SPACE, 2, 3, **points),
            randn((2, 2, 3, 6), (2, 6, 3)),
            convolve_cloud,
        ),
        # Axes have no signs, and those of a card are others.
        Row(
            "affine.PointFrame",
            lambda: affine.PointFrame(Similarity(3)),
            randn((2, 9, 3)),
            lambda layer, x: layer(x).square(),
        ),
        Row("affine.AffineResNet", _resnet, _images((2, 1, 24, 24)), kinks=True),
        Row("affine.AffinePointNet", _point_net, randn((2, 12, 3))),
    ]


def _images(shape: tuple[int, ...]) -> Callable[[], tuple[Tensor, ...]]:
    """Dark at the rim, as a digit is."""

    def inputs() -> tuple[Tensor, ...]:
        axis = torch.linspace(-2, 2, shape[-1], dtype=torch.float64)
        blob = torch.exp(-(axis[:, None] ** 2) - 2 * (axis - 0.3) ** 2)
        noise = torch.rand(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        return (blob * (0.5 + noise),)

    return inputs


def _resnet() -> nn.Module:
    config = affine.AffineResNetConfig(
        3,
        samples=affine.SamplesConfig(count=4),
        stages=affine.StagesConfig(channels=(2, 3)),
        head=affine.HeadConfig(features=4),
    )
    return affine.AffineResNet(config)


def _point_net() -> nn.Module:
    sizes = {"centers": (6, 3), "neighbors": (4, 3), "channels": (4, 5, 6)}
    return affine.AffinePointNet(affine.AffinePointNetConfig(3, **sizes, rank=3, gaussians=2))
