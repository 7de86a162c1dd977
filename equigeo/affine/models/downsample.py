"""Downsampling of features of the plane by two."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F


def downsample(x: Tensor, pooling: Literal["binomial", "max"]) -> Tensor:
    r"""Downsample features of the plane by two.

    Binomial pooling weighs four neighbours of each axis with :math:`(1, 3, 3, 1) / 8`, a mean of
    two pixels smoothed by one of three. A turned or moved image then gives nearly the turned or
    moved features, which the mean of two, and much less the maximum, cannot promise: they let
    through waves that the coarser grid takes for others.

    Parameters
    ----------
    x : Tensor, (..., C, H, W), floating
        Features, zero beyond the edges.
    pooling : {"binomial", "max"}
        Binomial weights, or the maximum of two times two.

    Returns
    -------
    Tensor, (..., C, H // 2, W // 2), dtype of ``x``
        Features at half the resolution.

    Equivariance
    ------------
    To reflections and quarter turns exactly, where sides are even; to other rotations up to the
    resolution.

    References
    ----------
    Zhang, "Making Convolutional Networks Shift-Invariant Again", ICML 2019.

    Examples
    --------
    >>> import torch
    >>> downsample(torch.ones(1, 6, 6), "binomial")
    tensor([[[0.7656, 0.8750, 0.7656],
             [0.8750, 1.0000, 0.8750],
             [0.7656, 0.8750, 0.7656]]])
    """
    if pooling == "max":
        return F.max_pool2d(x.flatten(0, -3), 2).unflatten(0, x.shape[:-2])
    down, right = (_binomial(size, x) for size in x.shape[-2:])
    return down @ x @ right.T


def _binomial(size: int, like: Tensor) -> Tensor:
    """Matrix that weighs an axis, (size // 2, size)."""
    rows = 2 * torch.arange(size // 2, device=like.device)[:, None]
    distance = (2 * torch.arange(size, device=like.device) - 2 * rows - 1).abs()
    # Distances of pixel middles from the middle of a pair, in half pixels: 1 and 3 on both sides.
    near, far = like.new_tensor(3 / 8), like.new_tensor(1 / 8)
    return torch.where(distance == 1, near, torch.where(distance == 3, far, torch.zeros_like(far)))
