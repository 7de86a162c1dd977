"""A few points spread evenly over a cloud."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.affine.points.point_neighbors import take_rows


def farthest_points(points: Tensor, count: int) -> Tensor:
    """Choose points one after another, each the farthest from those before.

    The first is the farthest from the mean. The first ``m`` of the result are the choice of ``m``.

    Parameters
    ----------
    points : Tensor, (B, P, n), floating
        Clouds.
    count : int
        How many, at most P.

    Returns
    -------
    Tensor, (B, count), int64
        Positions in the clouds.

    Raises
    ------
    ValueError
        If there are fewer points than that.

    Equivariance
    ------------
    Invariant to similarities, and to permutations of points, but for ties. Not to shears: choose
    in the coordinates of a :class:`equigeo.affine.PointFrame`.

    Examples
    --------
    >>> farthest_points(torch.tensor([[[0.0], [1.0], [9.0], [4.0]]]), 3)
    tensor([[2, 0, 3]])
    """
    if points.ndim != 3 or not 1 <= count <= points.shape[1]:
        raise ValueError(
            f"count must be from 1 to the points of {tuple(points.shape)}, got {count}"
        )
    points = points.detach()
    columns = points.mT.contiguous()
    nearest = (columns - columns.mean(2, keepdim=True)).square_().sum(1)
    chosen = [nearest.argmax(1, keepdim=True)]
    nearest = torch.full_like(nearest, float("inf"))
    while len(chosen) < count:
        square = (columns - take_rows(points, chosen[-1]).mT).square_().sum(1)
        nearest = torch.minimum(nearest, square)
        chosen.append(nearest.argmax(1, keepdim=True))
    return torch.cat(chosen, dim=1)
