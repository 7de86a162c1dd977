"""Groups of neighbours around a few points of a cloud."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.points.farthest_point_sampling import spread_points
from equigeo.points.gather_rows import take_rows
from equigeo.points.nearest_neighbors import nearest_points


def group_points(
    places: Tensor, count: int, neighbors: int, mask: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Spread a few points over a cloud and find the neighbours of each.

    Parameters
    ----------
    places : Tensor, (B, P, dim), floating
        Clouds, about the origin.
    count : int
        How many points stand for their surroundings; of fewer, all.
    neighbors : int
        Points of a group; of fewer, all.
    mask : Tensor, (B, P), bool, optional
        Which points there are.

    Returns
    -------
    tuple of Tensor (B, Q), Tensor (B, Q, k), Tensor (B, Q) or None
        Positions of the middles and of their neighbours in the clouds, int64; and which middles
        there are, where there is a mask.

    Equivariance
    ------------
    Invariant to rotations about the origin, and equivariant to permutations, but for ties.

    Examples
    --------
    >>> line = torch.tensor([[[0.0], [1.0], [9.0], [4.0]]])
    >>> middles, near, _ = group_points(line, 2, 2)
    >>> middles.tolist(), near.tolist()
    ([[2, 0]], [[[2, 3], [0, 1]]])
    """
    few = spread_points(places, min(count, places.shape[1]), mask)
    near = nearest_points(places, neighbors, mask, centers=take_rows(places, few))
    if mask is not None:  # where there are fewer points, the last are padding
        order = torch.arange(few.shape[1], device=mask.device)
        mask = order < mask.sum(1, keepdim=True)
    return few, near, mask
