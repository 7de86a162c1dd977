"""Waves in Gaussian envelopes."""

from __future__ import annotations

import pytest
import torch

from equigeo.affine import GaborKernel


def test_waves_vanish_far_from_their_ridges() -> None:
    torch.manual_seed(0)
    kernel = GaborKernel(2, 3, layers=1, sigma=50.0)
    far = kernel(torch.full((1, 2), 1e3))
    torch.testing.assert_close(far, kernel.last.bias.expand(1, 3))


def test_sizes_must_be_positive() -> None:
    with pytest.raises(ValueError, match="must be positive"):
        GaborKernel(2, 3, layers=0)
