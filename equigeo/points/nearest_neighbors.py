"""The nearest points of a cloud, in any space."""

from __future__ import annotations

import torch
from torch import Tensor


def nearest_neighbors(
    points: Tensor, count: int, mask: Tensor | None = None, *, centers: Tensor | None = None
) -> Tensor:
    """Find the nearest points, each itself among its own.

    Distances are compared to rounding. Which of points at one distance comes first is not
    promised.

    Parameters
    ----------
    points : Tensor, (B, P, C), floating
        Clouds in any space.
    count : int
        How many neighbours; of fewer points, all.
    mask : Tensor, (B, P), bool, optional
        Which points there are; where they are too few, the nearest is named again.
    centers : Tensor, (B, Q, C), dtype of ``points``, optional
        Whose neighbours; those of all points by default.

    Returns
    -------
    Tensor, (B, Q, count), int64
        Positions in the cloud, the nearest first.

    Equivariance
    ------------
    Invariant to similarities of the space, and equivariant to permutations of points, but for ties.

    Examples
    --------
    >>> nearest_neighbors(torch.tensor([[[0.0], [1.0], [5.0]]]), 2)
    tensor([[[0, 1],
             [1, 0],
             [2, 1]]])
    """
    points = points.detach()
    centers = points if centers is None else centers.detach()
    # |c - x|^2 without |c|^2, which is the same for all x: one matrix product in any dimension.
    square = (-2 * centers @ points.mT).add_(points.square().sum(-1)[:, None, :])
    if mask is not None:
        square = square.masked_fill(~mask[:, None, :], torch.inf)
    found = square.topk(min(count, points.shape[1]), largest=False)
    if mask is None:
        return found.indices
    return torch.where(found.values < torch.inf, found.indices, found.indices[..., :1])
