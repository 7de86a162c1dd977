"""Gaussians around fixed centres."""

from __future__ import annotations

import pytest
import torch

from equigeo.affine import RBFKernel, kernel_grid


def test_values_are_linear_in_the_weights() -> None:
    kernel, x = RBFKernel(kernel_grid(3, 2), 0.5, 4), torch.rand(6, 2)
    before = kernel(x).detach()
    with torch.no_grad():
        kernel.weight *= 3
    torch.testing.assert_close(kernel(x), 3 * before)


def test_centres_are_in_no_checkpoint() -> None:
    assert list(RBFKernel(kernel_grid(3, 2), 0.5, 4).state_dict()) == ["weight"]


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match="centers must be"):
        RBFKernel(torch.zeros(0, 2), 1.0, 3)
    with pytest.raises(ValueError, match="must be positive"):
        RBFKernel(torch.zeros(1, 2), 0.0, 3)
