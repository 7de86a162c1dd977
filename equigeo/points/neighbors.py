"""Nearest points of a cloud, and points within a radius."""

from __future__ import annotations

from types import ModuleType

import scipy
import torch
from torch import Tensor

from equigeo._core.checks import TensorLike, as_tensor
from equigeo._core.tensors import computed_in
from equigeo.points.clouds import (
    check_finite,
    check_some_points,
    gather_rows,
    given_clouds,
    given_mask,
    scale_of,
)
from equigeo.points.search import (
    cluster_inside,
    distances,
    nearest_by_trees,
    settle,
    trees_for,
)

DIRECT = 8  # dimensions up to which coordinates are subtracted before they are squared
_BLOCK = 8  # numbers of which only the minimum is sorted first, if few blocks are wanted
_SQUARES = (1e-15, 1e15)  # coordinates whose squares float32 can represent, for torch-cluster


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


def radius_neighbors(
    points: TensorLike,
    radius: float,
    count: int | None = None,
    mask: TensorLike | None = None,
    *,
    centers: TensorLike | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the points within a radius, boundary included, or the nearest of them.

    Parameters
    ----------
    points : Tensor or ndarray, (*B, P, C), floating
    radius : float
    count : int, optional
        Number of nearest points to keep per ball, by default all. Which of several points at the
        same distance is dropped is unspecified.
    mask : Tensor, (*B, P), bool, optional
        Existing points; batch axes are broadcast.
    centers : Tensor, (*B, Q, C), optional
        Centers of the balls, by default all points.

    Returns
    -------
    indices : Tensor, (*B, Q, k), int64
        Positions in the cloud, unordered; ``k`` is the smaller of ``count`` and P.
    inside : Tensor, (*B, Q, k), bool
        Whether each of them is inside; other indices are meaningless.

    Equivariance
    ------------
    Invariant to isometries, equivariant to permutations of points, except for ties.

    Examples
    --------
    >>> indices, inside = radius_neighbors(torch.tensor([[[0.0], [1.0], [5.0]]]), 1.0)
    >>> inside.int().tolist()
    [[[1, 1, 0], [1, 1, 0], [0, 0, 1]]]
    """
    cloud = given_clouds(points, batched=False).detach()
    middle = cloud
    if centers is not None:
        middle = given_clouds(centers, "centers", dim=cloud.shape[-1], batched=False).detach()
    if not radius >= 0 or (count is not None and count < 0):
        raise ValueError(f"radius and count must not be negative, got {radius} and {count}")
    count = None if count is None else min(count, cloud.shape[-2])
    there = None if mask is None else as_tensor(mask, "mask")
    if there is not None and (there.dtype != torch.bool or there.shape[-1:] != cloud.shape[-2:-1]):
        raise ValueError(
            f"mask must be bool (..., {cloud.shape[-2]}), got {there.dtype} {tuple(there.shape)}"
        )
    check_finite(cloud, "points", there)
    if centers is not None:
        check_finite(middle, "centers")
    found = _search_trees_within(cloud, middle, radius, count, there)
    return _compare_within(cloud, middle, radius, count, there) if found is None else found


def find_nearest(
    points: Tensor, count: int, mask: Tensor | None, centers: Tensor | None = None
) -> Tensor:
    """Return the nearest points (B, Q, count) of validated clouds or features."""
    points, centers = _centred(points, centers, mask)
    count = min(count, points.shape[1])
    found = _search_trees(points, centers, count, mask)
    return _compare_all(points, centers, count, mask) if found is None else found


def _centred(points: Tensor, centers: Tensor | None, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Center and scale clouds to unit size, to limit cancellation in squared distances."""
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
) -> Tensor:
    """Compare all distances from centers (B, Q, C) and return positions, (B, Q, count)."""
    if points.shape[2] <= DIRECT:
        far = torch.cdist(centers, points, compute_mode="donot_use_mm_for_euclid_dist")
    else:  # |c - x|^2 without |c|^2, which is the same for all x: one matrix product
        far = (-2 * centers @ points.mT).add_(points.square().sum(-1)[:, None, :])
    if mask is not None:
        far = far.masked_fill(~mask[:, None, :], torch.inf)
    size = points.shape[1]
    # Exported programs are for any number of points.
    is_plain = torch.compiler.is_exporting() or points.shape[2] <= DIRECT
    if is_plain or size % _BLOCK or size < 4 * _BLOCK * count or far.device.type != "cpu":
        values, indices = far.topk(count, largest=False)
    else:
        # The smallest numbers are in as many blocks, those with the smallest minima.
        minima = far.unflatten(2, (_BLOCK, size // _BLOCK)).amin(2)
        few = minima.topk(count, largest=False, sorted=False)
        members = torch.arange(0, size, size // _BLOCK)
        candidates = (few.indices[..., None] + members).flatten(2)
        values, indices = far.gather(2, candidates).topk(count, largest=False)
        indices = candidates.gather(2, indices)
    return indices if mask is None else torch.where(values < torch.inf, indices, indices[..., :1])


def _search_trees(
    points: Tensor, centers: Tensor, count: int, mask: Tensor | None
) -> Tensor | None:
    """Search by trees, and compare all distances where rounding may affect the order."""
    library = trees_for(points, mask, centers, count)
    if library is None or count == 0:
        return None
    found = nearest_by_trees(library, points, centers, count, mask)
    if found is None:
        return None
    table, ties = found
    indices = table[..., :count]
    if mask is not None:
        indices = torch.where(indices < 0, table[..., :1], indices)

    def search(cloud: int, rows: Tensor) -> Tensor:
        one = slice(cloud, cloud + 1)
        here = None if mask is None else mask[one]
        return _compare_all(points[one], centers[one, rows], count, here)[0]

    return settle(indices, ties.any(-1), search)


def _compare_within(
    points: Tensor,
    centers: Tensor,
    radius: float,
    count: int | None,
    mask: Tensor | None,
) -> tuple[Tensor, Tensor]:
    points, centers = (x.to(computed_in(x.dtype)) for x in (points, centers))
    scale = scale_of(points, centers, mask=mask)
    points, centers, within = _scaled(points, centers, radius, scale)
    # Differences, not a matrix product: what lies on the radius must not be lost to cancellation.
    distance = torch.cdist(centers, points, compute_mode="donot_use_mm_for_euclid_dist")
    if mask is not None:
        distance = distance.masked_fill(~mask[..., None, :], torch.inf)
    indices = _all_positions(distance)
    if count is not None:
        distance, indices = distance.topk(count, largest=False, sorted=False)
    return indices, distance <= within


def _all_positions(pairs: Tensor) -> Tensor:
    return torch.arange(pairs.shape[-1], device=pairs.device).expand(pairs.shape)


def _search_trees_within(
    points: Tensor, centers: Tensor, radius: float, count: int | None, mask: Tensor | None
) -> tuple[Tensor, Tensor] | None:
    """Search by trees with merged batch axes."""
    library = trees_for(points, mask, centers, count)
    if library is None or count == 0:
        return None
    scale = scale_of(points, centers, mask=mask)
    shape = torch.broadcast_shapes(points.shape[:-2], centers.shape[:-2])
    points, centers, scale = (
        x.expand(*shape, *x.shape[-2:]).reshape(-1, *x.shape[-2:]) for x in (points, centers, scale)
    )
    if mask is not None:
        mask = mask.expand(*shape, mask.shape[-1]).reshape(-1, mask.shape[-1])
    if count is None:
        # SciPy does not list all points of a ball: all pairs anyway, it would not be faster.
        is_in_range = bool(((scale > _SQUARES[0]) & (scale < _SQUARES[1])).all())
        if not is_in_range or library is scipy:
            return None
        inside = cluster_inside(library, points, centers, radius, mask)
        inside = inside.view(*shape, *inside.shape[1:])
        return _all_positions(inside), inside
    points, centers, within = _scaled(points, centers, radius, scale)
    indices = _settled_nearest(library, points, centers, count, mask)
    if indices is None:
        return None
    near = gather_rows(points, indices.clamp_min(0))
    inside = (distances(centers[:, :, None].expand_as(near), near) <= within) & (indices >= 0)
    lead = (*shape, *indices.shape[1:])
    return indices.clamp_min(0).view(lead), inside.view(lead)


def _scaled(
    points: Tensor, centers: Tensor, radius: float, scale: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Divide by the scale; the radius stays finite, so that padding is outside."""
    within = (radius / scale).clamp_max(torch.finfo(scale.dtype).max)
    return points / scale, centers / scale, within


def _settled_nearest(
    library: ModuleType,
    points: Tensor,
    centers: Tensor,
    count: int,
    mask: Tensor | None,
) -> Tensor | None:
    """Return positions (B, Q, count) of the nearest points, -1 if there are no more."""
    found = nearest_by_trees(library, points, centers, count, mask)
    if found is None:
        return None
    table, ties = found
    if table.shape[2] == count:  # nothing was left out
        return table

    def search(cloud: int, rows: Tensor) -> Tensor:
        here = None if mask is None else mask[cloud]
        return _compare_within(points[cloud], centers[cloud, rows], torch.inf, count, here)[0]

    return settle(table[..., :count].contiguous(), ties[..., -1], search)
