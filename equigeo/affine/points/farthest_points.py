"""Farthest point sampling of clouds."""

from __future__ import annotations

from torch import Tensor

from equigeo.graphs.inputs import TensorLike
from equigeo.points import farthest_point_sampling
from equigeo.points.cloud_checks import given_clouds


def farthest_points(
    points: TensorLike,  # (B, P, n)
    count: int,
) -> Tensor:  # (B, count), the first m are the selection of m points
    """Select points by farthest point sampling, starting with the farthest from the mean."""
    cloud = given_clouds(points)
    # Contiguous, so that the order of the sum and the selection do not depend on strides.
    mean = cloud.mT.contiguous().mean(2)
    return farthest_point_sampling(cloud, count, origin=mean)
