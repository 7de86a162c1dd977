"""Rows of the layers of :mod:`equigeo.mds` and :mod:`equigeo.points`, and of embeddings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from equigeo import mds
from equigeo.groups import SO
from equigeo.reps import Points
from tests.modes.row import Row, apply, randn


def cloud_rows() -> list[Row]:
    small = {"dropout": 0.0, "hidden": (6, 5)}
    return [
        _row("embed", nn.Identity, lambda _, x: mds.embed(x).y),
        _row("frames", nn.Identity, _squares, rows=False),
        _row("Invariant", lambda: mds.Invariant(_PointMLP()), apply),
        _row("Canonicalized", _canonicalized, apply, randn((2, 4, 3))),
        _row("DGCNN", lambda: mds.DGCNN(3, widths=(4, 5), neighbors=4, features=6, **small), apply),
        _row("PointNet", lambda: mds.PointNet(3, widths=(4, 6), **small), apply),
        _row(
            "PointNetPlusPlus",
            lambda: mds.PointNetPlusPlus(3, (6, 3), 4, ((4, 5), (5, 6)), 6, **small),
            apply,
        ),
        _row(
            "PointTransformer", lambda: mds.PointTransformer(3, (6, 3), 4, 8, 2, 6, **small), apply
        ),
        _row(
            "InvariantPointNet",
            lambda: mds.InvariantPointNet(mds.InvariantPointNetConfig(3)),
            apply,
        ),
        _row("AttentionModel", _router, _route, randn((2, 7, 2))),
    ]


def _squares(_: nn.Module, x: Tensor) -> Tensor:
    """An average that is the same for any number of frames: coarse dtypes have more."""
    return mds.frame_average(torch.square, mds.frames(x))


def _canonicalized() -> nn.Module:
    energy = nn.Sequential(_PointMLP(), nn.Linear(4, 1), nn.Flatten(0))
    return mds.Canonicalized(_PointMLP(), energy, Points(SO(3)), starts=2, steps=12)


class _PointMLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 4)

    def forward(self, points: Tensor) -> Tensor:
        return torch.tanh(self.inner(points)).mean(-2)


def _row(
    name: str,
    make: Callable[[], nn.Module],
    call: Callable[..., Any],
    inputs: Callable[[], tuple[Tensor, ...]] | None = None,
    *,
    rows: bool = True,
) -> Row:
    inputs = inputs or randn((2, 12, 3))
    return Row(f"mds.{name}", make, inputs, call, f"mds.{name}", rows=rows)


def _router() -> nn.Module:
    return mds.AttentionModel(mds.AttentionModelConfig("mds", 8, 2, 1, 16))


def _route(layer: nn.Module, cities: Tensor) -> Any:
    return layer(cities).log_prob
