"""Neighbours of points by brute force."""

from __future__ import annotations

import torch
from torch import Tensor


def nearest_points(
    x: Tensor, count: int, mask: Tensor | None = None, *, centers: Tensor | None = None
) -> Tensor:
    """Find the nearest points, each itself among its own.

    Parameters
    ----------
    x : Tensor, (B, P, C), floating
        Points in any space.
    count : int
        How many neighbours; of fewer points, all.
    mask : Tensor, (B, P), bool, optional
        Which points there are; where they are too few, the nearest is named again.
    centers : Tensor, (B, Q, C), floating, optional
        Whose neighbours; those of all points by default.

    Returns
    -------
    Tensor, (B, Q, count), int64
        Positions in the cloud, the nearest first.

    Equivariance
    ------------
    Invariant to isometries of the space, and equivariant to permutations of points, but for ties.

    Examples
    --------
    >>> nearest_points(torch.tensor([[[0.0], [1.0], [5.0]]]), 2)
    tensor([[[0, 1],
             [1, 0],
             [2, 1]]])
    """
    x = x.detach()
    centers = x if centers is None else centers.detach()
    square = (-2 * centers @ x.mT).add_(x.square().sum(-1)[:, None, :])
    if mask is not None:
        square = square.masked_fill(~mask[:, None, :], torch.inf)
    found = square.topk(min(count, x.shape[1]), largest=False)
    if mask is None:
        return found.indices
    return torch.where(found.values < torch.inf, found.indices, found.indices[..., :1])
