"""Farthest point sampling of clouds."""

from __future__ import annotations

from torch import Tensor

from equigeo.graphs.inputs import TensorLike
from equigeo.points import farthest_point_sampling
from equigeo.points.cloud_checks import given_clouds


def farthest_points(points: TensorLike, count: int) -> Tensor:
    """Select points by farthest point sampling, starting with the farthest from the mean.

    The first ``m`` results are the selection of ``m`` points.

    Parameters
    ----------
    points : Tensor or ndarray, (B, P, n), floating
        Clouds.
    count : int
        Number of points, at most P.

    Returns
    -------
    Tensor, (B, count), int64

    Equivariance
    ------------
    Invariant to similarities and to permutations of points, except for ties. Not to shears: select
    in the coordinates of a :class:`PointFrame`.

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
