"""Which coordinate of embedded points goes with their height."""

from __future__ import annotations

import torch
from torch import Tensor


def direction_up(points: Tensor, y: Tensor) -> Tensor:
    """Find which direction of which axis of an embedding is nearest to the last axis of space.

    Parameters
    ----------
    points : Tensor, (..., points, dim), floating
        Clouds.
    y : Tensor, (..., points, dim), floating
        The same about the origin, in principal axes.

    Returns
    -------
    Tensor, (...), int64
        Twice the number of the axis, and one more if it points down.

    Equivariance
    ------------
    Invariant under rotations of the points about the last axis, where the embedding is.

    Examples
    --------
    >>> y = torch.tensor([[3.0, 0.0], [-3.0, 0.0], [0.0, 2.0], [0.0, -2.0]])
    >>> turned = y @ torch.tensor([[0.6, -0.8], [0.8, 0.6]])
    >>> direction_up(y, y).item(), direction_up(turned, y).item()
    (2, 1)
    """
    height = points[..., -1:] - points[..., -1:].mean(-2, keepdim=True)
    spread = y.square().sum(-2).clamp_min(torch.finfo(y.dtype).tiny)
    slope = (height * y).sum(-2) / spread  # components of the last axis of space, by least squares
    axis = slope.abs().argmax(-1, keepdim=True)
    return (2 * axis + (slope.gather(-1, axis) < 0))[..., 0]
