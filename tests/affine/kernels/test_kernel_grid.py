"""Points at which kernels are evaluated."""

from __future__ import annotations

import pytest
import torch

from equigeo.affine import kernel_grid


def test_sums_over_cells_are_midpoint_integrals() -> None:
    grid = kernel_grid(40, 2, 1.5)
    volume = (3.0 / 40) ** 2
    integral = torch.exp(-4 * grid.square().sum(1)).sum() * volume
    expected = torch.pi / 4 * torch.erf(torch.tensor(3.0)).double() ** 2
    # Each axis has step^2 / 24 times the change of slope, 24 exp(-9), over the integral: 8e-7.
    torch.testing.assert_close(integral, expected, rtol=2e-6, atol=0)


def test_size_and_extent_must_be_positive() -> None:
    with pytest.raises(ValueError, match="must be positive"):
        kernel_grid(0, 2)
