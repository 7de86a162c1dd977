"""One clear error for each thing that does not fit."""

from __future__ import annotations

import pytest
import torch

from equigeo.affine import (
    GaborKernel,
    GroupConv,
    GroupPool,
    KernelSpec,
    LiftConv,
    ProjectConv,
    Quadrature,
    RBFKernel,
    SeparableGroupConv,
    SirenKernel,
    TensorReadout,
    WindowWarning,
    kernel_grid,
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


def test_options_are_checked() -> None:
    with pytest.raises(ValueError, match="spatial must be"):
        SeparableGroupConv(SO(2), 1, 1, spatial="wide")
    with pytest.raises(ValueError, match="chunk must be"):
        Quadrature(chunk=0)
    with pytest.raises(ValueError, match="channels must be positive"):
        GroupConv(SO(2), 0, 1)
    with pytest.raises(ValueError, match="network must be"):
        KernelSpec(network="mlp")
    with pytest.raises(ValueError, match="window must be"):
        KernelSpec(window="box")
    with pytest.raises(ValueError, match="extent must be positive"):
        KernelSpec(extent=0.0)
    with pytest.raises(ValueError, match="must be positive"):
        kernel_grid(0, 2)
    with pytest.raises(ValueError, match="hidden must be positive"):
        SirenKernel(2, 3, hidden=0)
    with pytest.raises(ValueError, match="must be positive"):
        GaborKernel(2, 3, layers=0)
    with pytest.raises(ValueError, match="centers must be"):
        RBFKernel(torch.zeros(0, 2), 1.0, 3)


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
