"""The points of a cloud inside a radius."""

from __future__ import annotations

import torch
from torch import Tensor


def radius_neighbors(
    points: Tensor,
    radius: float,
    count: int | None = None,
    mask: Tensor | None = None,
    *,
    centers: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Find the points inside a radius, its end included, or the nearest of them.

    Parameters
    ----------
    points : Tensor, (*B, P, C), floating
        Clouds.
    radius : float
        Of the ball around each centre.
    count : int, optional
        Only the nearest ``count`` in each ball; all by default. Which of points at one distance
        is left out is not promised.
    mask : Tensor, (*B, P), bool, optional
        Which points there are; batch axes of length 1 stand for all.
    centers : Tensor, (*B, Q, C), dtype of ``points``, optional
        The middles of the balls; all points by default.

    Returns
    -------
    indices : Tensor, (*B, Q, k), int64
        Positions in the cloud, in no particular order; ``k`` is ``count`` or P, whichever is less.
    inside : Tensor, (*B, Q, k), bool
        Which of them are inside; the others mean nothing.

    Equivariance
    ------------
    Invariant to isometries of the space, and equivariant to permutations of points, but for ties.

    Examples
    --------
    >>> indices, inside = radius_neighbors(torch.tensor([[[0.0], [1.0], [5.0]]]), 1.0)
    >>> inside.int().tolist()
    [[[1, 1, 0], [1, 1, 0], [0, 0, 1]]]
    """
    points = points.detach()
    centers = points if centers is None else centers.detach()
    # Differences, not a matrix product: what lies on the radius must not be lost to cancellation.
    distance = torch.cdist(centers, points, compute_mode="donot_use_mm_for_euclid_dist")
    if mask is not None:
        distance = distance.masked_fill(~mask[..., None, :], torch.inf)
    if count is None:
        indices = torch.arange(points.shape[-2], device=points.device).expand(distance.shape)
    else:
        distance, indices = distance.topk(min(count, points.shape[-2]), largest=False, sorted=False)
    return indices, distance <= radius
