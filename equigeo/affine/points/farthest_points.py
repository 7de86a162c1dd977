"""Points spread evenly over a cloud, wherever it lies."""

from __future__ import annotations

from torch import Tensor

from equigeo.points import farthest_point_sampling


def farthest_points(points: Tensor, count: int) -> Tensor:
    """Choose points by farthest point sampling, beginning with the farthest from the mean.

    The first ``m`` of the result are the choice of ``m``.

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
    >>> import torch
    >>> farthest_points(torch.tensor([[[0.0], [1.0], [9.0], [4.0]]]), 3)
    tensor([[2, 0, 3]])
    """
    if points.ndim != 3:  # refused below, which a mean over points would not survive
        return farthest_point_sampling(points, count)
    # Contiguous: the order of this sum, and so the choice, must not depend on strides.
    mean = points.mT.contiguous().mean(2)
    return farthest_point_sampling(points, count, origin=mean)
