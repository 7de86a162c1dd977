"""Farthest point sampling."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from equigeo._core.checks import TensorLike, as_tensor, check_shape
from equigeo._core.tensors import computed_in
from equigeo.points.clouds import (
    check_finite,
    check_some_points,
    given_clouds,
    given_mask,
    scale_of,
)


def farthest_point_sampling(
    points: TensorLike,
    count: int,
    mask: TensorLike | None = None,
    *,
    origin: TensorLike | None = None,
) -> Tensor:
    """Sample points successively, each the farthest from all earlier ones.

    The first ``m`` points of the result are the sample of size ``m``. Among equally far points, the
    first in the cloud is chosen; no point is chosen twice while others are left.

    Parameters
    ----------
    points : Tensor or ndarray, (B, P, dim), floating
    count : int
        Number of points, at most P.
    mask : Tensor, (B, P), bool, optional
        Existing points, at least one per cloud. If there are fewer than ``count``, the first one
        fills the rest.
    origin : Tensor, (B, dim), optional
        The first choice is the point farthest from here, by default from zero.

    Returns
    -------
    Tensor, (B, count), int64
        Positions in the clouds.

    Equivariance
    ------------
    Invariant to similarities that move the origin with the cloud, equivariant to permutations of
    points, except for ties.

    References
    ----------
    Gonzalez, "Clustering to minimize the maximum intercluster distance", 1985.

    Examples
    --------
    >>> farthest_point_sampling(torch.tensor([[[0.0], [1.0], [9.0], [4.0]]]), 3)
    tensor([[2, 0, 3]])
    """
    cloud = given_clouds(points).detach()
    there = given_mask(mask, cloud.shape[:2])
    if not 1 <= count <= cloud.shape[1]:
        raise ValueError(f"count must be from 1 to the points of {tuple(cloud.shape)}, got {count}")
    check_some_points(there)
    check_finite(cloud, "points", there)
    cloud = cloud.to(computed_in(cloud.dtype))
    place = None
    if origin is not None:
        place = as_tensor(origin, "origin", like=cloud).detach()
        check_shape(place, "origin", (cloud.shape[0], cloud.shape[2]))
        place = place[:, None]
    scale = scale_of(*(x for x in (cloud, place) if x is not None), mask=there)
    cloud = cloud / scale
    # Coordinates apart: sums over them are then vectorized.
    columns = cloud.mT.contiguous()

    def squares_from(place: Tensor) -> Tensor:
        squares = (columns - place).square_().sum(1)
        # Nothing is nearer than this, so that padding is never the farthest.
        return squares if there is None else squares.masked_fill_(~there, -torch.inf)

    start = columns.new_zeros(()) if place is None else (place / scale).mT
    first = squares_from(start).argmax(1, keepdim=True)

    def squares_from_chosen(chosen: Tensor) -> Tensor:
        return squares_from(columns.gather(2, chosen[:, None].expand(-1, columns.shape[1], 1)))

    return farthest_first(first, squares_from_chosen, count)


def farthest_first(
    first: Tensor,  # (*B, 1)
    distances_from: Callable[[Tensor], Tensor],  # (*B, 1) to (*B, P), -inf: padding
    count: int,
) -> Tensor:
    """Choose elements greedily, each the farthest from all earlier ones, (*B, count)."""
    chosen, nearest = [first], None
    while len(chosen) < count:
        distances = distances_from(chosen[-1])
        nearest = distances.clone() if nearest is None else torch.minimum(nearest, distances)
        nearest.scatter_(-1, chosen[-1], -1)  # behind elements that coincide with it
        chosen.append(nearest.argmax(-1, keepdim=True))
    return torch.cat(chosen, dim=-1)
