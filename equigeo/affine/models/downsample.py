"""Downsampling of features of the plane by two."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F


def downsample(
    x: Tensor,  # (..., C, H, W), zero beyond the edges
    pooling: Literal["binomial", "max"],
) -> Tensor:  # (..., C, H // 2, W // 2)
    """Downsample features of the plane by two, with binomial weights or maxima."""
    if pooling == "max":
        return F.max_pool2d(x.flatten(0, -3), 2).unflatten(0, x.shape[:-2])
    # Weights (1, 3, 3, 1) / 8 per axis suppress the frequencies that the mean of two and the
    # maximum alias: Zhang, "Making Convolutional Networks Shift-Invariant Again", ICML 2019.
    down, right = (_binomial(size, x) for size in x.shape[-2:])
    return down @ x @ right.T


def _binomial(size: int, like: Tensor) -> Tensor:
    """Return the matrix that weighs an axis, (size // 2, size)."""
    rows = 2 * torch.arange(size // 2, device=like.device)[:, None]
    distance = (2 * torch.arange(size, device=like.device) - 2 * rows - 1).abs()
    # Distances of pixel middles from the middle of a pair, in half pixels: 1 and 3 on both sides.
    near, far = like.new_tensor(3 / 8), like.new_tensor(1 / 8)
    return torch.where(distance == 1, near, torch.where(distance == 3, far, torch.zeros_like(far)))
