"""Nearest points of a cloud."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.graphs.inputs import TensorLike
from equigeo.ops.runtime.storage import computed_in
from equigeo.points.cloud_checks import (
    check_finite,
    check_some_points,
    given_clouds,
    given_mask,
    scale_of,
)
from equigeo.points.cluster_search import cluster_for, cluster_nearest, settle
from equigeo.points.gather_rows import gather_rows

DIRECT = 8  # dimensions up to which coordinates are subtracted before they are squared


def nearest_neighbors(
    points: TensorLike,
    count: int,
    mask: TensorLike | None = None,
    *,
    centers: TensorLike | None = None,
) -> Tensor:
    """Return the nearest points of each point, itself included.

    Distances are exact to rounding; in more than eight dimensions, squared distances are exact to
    the rounding of the largest one. The order of points at equal distances is unspecified, but the
    same with and without torch-cluster.

    Parameters
    ----------
    points : Tensor or ndarray, (B, P, C), floating
    count : int
        Number of neighbors; all points if there are fewer.
    mask : Tensor, (B, P), bool, optional
        Existing points, at least one per cloud. If there are fewer than ``count``, the nearest one
        is repeated.
    centers : Tensor, (B, Q, C), optional
        Points whose neighbors are searched, by default all points.

    Returns
    -------
    Tensor, (B, Q, count), int64
        Positions in the cloud, nearest first.

    Equivariance
    ------------
    Invariant to similarities, equivariant to permutations of points, except for ties.

    Examples
    --------
    >>> nearest_neighbors(torch.tensor([[[0.0], [1.0], [5.0]]]), 2)
    tensor([[[0, 1],
             [1, 0],
             [2, 1]]])
    """
    cloud = given_clouds(points)
    middle = None if centers is None else given_clouds(centers, "centers", dim=cloud.shape[2])
    if count < 0:
        raise ValueError(f"count must not be negative, got {count}")
    there = given_mask(mask, cloud.shape[:2])
    check_some_points(there)
    check_finite(cloud, "points", there)
    if middle is not None:
        check_finite(middle, "centers")
    return find_nearest(cloud, count, there, middle)


def find_nearest(
    points: Tensor, count: int, mask: Tensor | None, centers: Tensor | None = None
) -> Tensor:
    """Return the nearest points (B, Q, count) of validated clouds or features."""
    points, centers = _centred(points, centers, mask)
    count = min(count, points.shape[1])
    found = _search_trees(points, centers, count, mask)
    return _compare_all(points, centers, count, mask) if found is None else found


def _centred(points: Tensor, centers: Tensor | None, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Centre and scale clouds to unit size, to limit cancellation in squared distances."""
    points = points.detach().to(computed_in(points.dtype))
    there = points if mask is None else points.masked_fill(~mask[..., None], 0)
    origin = there[:, :1] if mask is None else gather_rows(there, mask.int().argmax(1)[:, None])
    points = there - origin
    centers = points if centers is None else centers.detach() - origin
    scale = scale_of(points, centers, mask=mask)
    return points / scale, centers / scale


def _compare_all(
    points: Tensor,
    centers: Tensor,
    count: int,
    mask: Tensor | None,
    rows: Tensor | slice = slice(None),
) -> Tensor:
    """Compare all distances from centres (B, Q, C), or some of them, to (B, rows, count)."""
    if points.shape[2] <= DIRECT:
        far = torch.cdist(centers, points, compute_mode="donot_use_mm_for_euclid_dist")
    else:  # |c - x|^2 without |c|^2, which is the same for all x: one matrix product
        far = (-2 * centers @ points.mT).add_(points.square().sum(-1)[:, None, :])
    if mask is not None:
        far = far.masked_fill(~mask[:, None, :], torch.inf)
    found = far[:, rows].topk(count, largest=False)
    if mask is None:
        return found.indices
    return torch.where(found.values < torch.inf, found.indices, found.indices[..., :1])


def _search_trees(
    points: Tensor, centers: Tensor, count: int, mask: Tensor | None
) -> Tensor | None:
    """Search by torch-cluster, and compare all distances where rounding may affect the order."""
    cluster = cluster_for(points, mask, centers)
    if cluster is None or count == 0:
        return None
    table = cluster_nearest(cluster, points, centers, count, mask)
    if table is None:
        return None
    near, there = gather_rows(points, table.clamp_min(0)), table >= 0
    square = (near - centers[:, :, None]).square().sum(-1).masked_fill(~there, torch.inf)
    # Either square has C + 2 roundings, each of at most eps / 2 of |c|^2 + 2 |x|^2. Two points and
    # two ways of computing, and a factor of 2 for points that are farther out than those listed.
    scale = centers.square().sum(-1) + near.square().sum(-1).amax(-1)
    bound = 8 * (points.shape[2] + 2) * torch.finfo(points.dtype).eps * scale
    doubtful = (square.diff(dim=-1) <= bound[..., None]).any(-1)
    indices = torch.where(there, table, table[..., :1])[..., :count]

    def search(cloud: int, rows: Tensor) -> Tensor:
        one = slice(cloud, cloud + 1)
        here = None if mask is None else mask[one]
        return _compare_all(points[one], centers[one], count, here, rows)[0]

    return settle(indices, doubtful, search)
