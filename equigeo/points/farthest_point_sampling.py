"""A few points spread evenly over a cloud."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.points.gather_rows import take_rows


def spread_points(x: Tensor, count: int, mask: Tensor | None = None) -> Tensor:
    """Choose points, each the farthest from those before, the first from the origin.

    Parameters
    ----------
    x : Tensor, (B, P, dim), floating
        Clouds, about the origin.
    count : int
        How many, at most P.
    mask : Tensor, (B, P), bool, optional
        Which points there are; where they are too few, some are chosen again.

    Returns
    -------
    Tensor, (B, count), int64
        Positions in the clouds.

    Equivariance
    ------------
    Invariant to rotations about the origin, and equivariant to permutations, but for ties.

    References
    ----------
    Gonzalez, "Clustering to minimize the maximum intercluster distance", 1985.

    Examples
    --------
    >>> spread_points(torch.tensor([[[0.0], [1.0], [9.0], [4.0]]]), 3).tolist()
    [[2, 0, 3]]
    """
    x = x.detach()
    columns = x.mT.contiguous()
    square = columns.square().sum(1)
    nearest = torch.full_like(square, torch.inf)
    if mask is not None:
        square = square.masked_fill(~mask, -torch.inf)
        nearest = nearest.masked_fill(~mask, -torch.inf)
    chosen = [square.argmax(1, keepdim=True)]
    while len(chosen) < count:
        square = (columns - take_rows(x, chosen[-1]).mT).square_().sum(1)
        nearest = torch.minimum(nearest, square)
        chosen.append(nearest.argmax(1, keepdim=True))
    return torch.cat(chosen, dim=1)
