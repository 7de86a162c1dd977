"""One clear error for each thing that does not fit."""

from __future__ import annotations

import pytest
import torch

from equigeo.affine import (
    GroupConv,
    GroupPool,
    KernelSpec,
    LiftConv,
    ProjectConv,
    SeparableGroupConv,
    TensorReadout,
)
from equigeo.groups import (
    SL,
    SO,
    GroupSamples,
    equidistant_rotations,
    grid_stretches,
    multiply_samples,
)
from equigeo.reps import Points, TensorRep

EIGHT = equidistant_rotations(8)


def test_channels_must_be_positive() -> None:
    with pytest.raises(ValueError, match="channels must be positive"):
        GroupConv(SO(2), 0, 1)


@pytest.mark.parametrize("kind", [GroupConv, SeparableGroupConv])
def test_features_must_live_on_the_samples(kind: type) -> None:
    layer = kind(SO(2), 4, 6, KernelSpec(3))
    with pytest.raises(ValueError, match=r"features must be \(batch, 4, 8, size, size\)"):
        layer(torch.rand(2, 4, 7, 9, 9), EIGHT)
    with pytest.raises(ValueError, match="features must be"):
        layer(torch.rand(2, 3, 8, 9, 9), EIGHT)
    with pytest.raises(ValueError, match="features must be"):
        layer(torch.rand(2, 4, 8, 9), EIGHT)
    with pytest.raises(ValueError, match=r"samples must be of SO\(2\), got SL\(2\)"):
        layer(torch.rand(2, 4, 8, 9, 9), sl2(1.0))
    with pytest.raises(ValueError, match=r"samples must be of SO\(2\), got SL\(2\)"):
        layer(torch.rand(2, 4, 8, 9, 9), EIGHT, sl2(1.0))


def sl2(extent: float) -> GroupSamples:
    return multiply_samples(grid_stretches(SL(2), extent, 2), equidistant_rotations(2))


def test_other_layers_name_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match=r"samples must be of SO\(2\)"):
        LiftConv(SO(2), 1, 2)(torch.rand(1, 1, 9, 9), sl2(1.0))
    with pytest.raises(ValueError, match="features must be"):
        LiftConv(SO(2), 1, 2)(torch.rand(1, 2, 9, 9), EIGHT)
    with pytest.raises(ValueError, match="features must be"):
        ProjectConv(SO(2), 4, 2)(torch.rand(1, 4, 7, 9, 9), EIGHT)
    with pytest.raises(ValueError, match="for 8 samples"):
        GroupPool()(torch.rand(1, 4, 7, 9, 9), EIGHT)
    with pytest.raises(ValueError, match=r"C \* 2"):
        TensorReadout(TensorRep(SO(2), up=1))(torch.rand(1, 3, 8, 9, 9), EIGHT)
    with pytest.raises(ValueError, match="samples must be of"):
        TensorReadout(TensorRep(SO(2), up=1))(
            torch.rand(1, 2, 4, 9, 9), sl2(1.0).select(torch.arange(4))
        )
    with pytest.raises(ValueError, match="linear representation"):
        TensorReadout(Points(SO(2)))
    with pytest.raises(ValueError, match="'max' or 'mean'"):
        GroupPool("median")
