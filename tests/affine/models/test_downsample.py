"""Downsampling of features by two."""

from __future__ import annotations

from typing import Literal

import pytest
import torch
from torch.nn import functional as F

from equigeo.affine.models.downsample import downsample
from equigeo.testing import tolerance

CLOSE = tolerance(torch.float64, terms=4 * 4)


@pytest.mark.parametrize("sides", [(8, 8), (7, 10), (1, 5), (2, 3)])
def test_binomial_pooling_is_a_strided_convolution(sides: tuple[int, int]) -> None:
    x = torch.randn(2, 3, 4, *sides, dtype=torch.float64)
    weights = torch.tensor([1.0, 3.0, 3.0, 1.0], dtype=torch.float64) / 8
    padded = F.pad(x.flatten(0, 2)[:, None], (1, 1, 1, 1))
    if min(padded.shape[-2:]) < 4:
        padded = F.pad(padded, (0, 4, 0, 4))
    expected = F.conv2d(padded, (weights[:, None] * weights)[None, None], stride=2)[:, 0]
    expected = expected[:, : sides[0] // 2, : sides[1] // 2].unflatten(0, (2, 3, 4))
    torch.testing.assert_close(downsample(x, "binomial"), expected, **CLOSE)


def test_pooling_turns_and_reflects_with_features() -> None:
    x = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    poolings: tuple[Literal["binomial", "max"], ...] = ("binomial", "max")
    for pooling in poolings:
        y = downsample(x, pooling)
        torch.testing.assert_close(downsample(x.rot90(1, (2, 3)), pooling), y.rot90(1, (2, 3)))
        torch.testing.assert_close(downsample(x.flip(3), pooling), y.flip(3))


def response_to_the_finest_wave(pooling: Literal["binomial", "max"]) -> float:
    """What is left of pixels that alternate, which no coarser grid can show."""
    steps = torch.arange(16, dtype=torch.float64)
    wave = torch.cos(torch.pi * steps)[:, None].expand(1, 16, 16)
    return float(downsample(wave, pooling)[0, 1:-1].abs().max())


def test_binomial_pooling_stops_waves_that_the_coarser_grid_cannot_show() -> None:
    assert abs(response_to_the_finest_wave("binomial")) < CLOSE["atol"]
    assert response_to_the_finest_wave("max") > 0.9


def test_binomial_pooling_lets_less_through_where_waves_fold_than_a_mean_of_two() -> None:
    steps = torch.arange(16, dtype=torch.float64)
    wave = torch.cos(0.75 * torch.pi * (steps - 0.5))[:, None].expand(1, 16, 16)
    mean = F.avg_pool2d(wave, 2)[:, 1:-1, 1:-1].abs().max()
    assert downsample(wave, "binomial")[:, 1:-1, 1:-1].abs().max() < 0.2 * mean
