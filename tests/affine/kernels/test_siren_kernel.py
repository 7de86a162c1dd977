"""Sine networks."""

from __future__ import annotations

import pytest
import torch

from equigeo.affine import SirenKernel


def test_values_have_the_variance_that_convolutions_want() -> None:
    torch.manual_seed(0)
    kernel = SirenKernel(3, 4000, fan_in=25)
    values = kernel(2 * torch.rand(50, 3) - 1)
    # Three standard errors of a mean of 60 squared sines, 1 / sqrt(120) of it each.
    assert float(values.detach().var()) == pytest.approx(1 / 25, rel=0.3)


def test_sizes_must_be_positive() -> None:
    with pytest.raises(ValueError, match="hidden must be positive"):
        SirenKernel(2, 3, hidden=0)
