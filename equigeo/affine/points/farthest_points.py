"""Farthest point sampling of clouds."""

from __future__ import annotations

from torch import Tensor

from equigeo.graphs.inputs import TensorLike
from equigeo.points import farthest_point_sampling
from equigeo.points.cloud_checks import given_clouds


def farthest_points(points: TensorLike, count: int) -> Tensor:
    """Select points by farthest point sampling, starting with the farthest from the mean.

    The first ``m`` of the result are the choice of ``m``.

    Parameters
    ----------
    points : Tensor or ndarray, (B, P, n), floating
        Clouds.
    count : int
        How many, at most P.

    Returns
    -------
    Tensor, (B, count), int64
        Positions in the clouds.

    Raises
    ------
    TypeError
        If points are not floating.
    ValueError
        If ``points`` is no batch of clouds, or has fewer points than that.

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
    cloud = given_clouds(points)
    # Contiguous: the order of this sum, and so the choice, must not depend on strides.
    mean = cloud.mT.contiguous().mean(2)
    return farthest_point_sampling(cloud, count, origin=mean)
