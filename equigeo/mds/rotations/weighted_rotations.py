"""Frames spanned by points of a cloud, weighted so that averages are continuous."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.mds.rotations.anchor_rotations import along_line, handed_frames

# Pairs whose areas are compared at a time: 32 MiB of cross products in float64.
_PAIRS_AT_A_TIME = 2**20


def weighted_rotations(
    y: Tensor,  # (points, dim), one centred cloud, dim at most 3
    group: str,  # "O" or "SO"
    softness: float,  # tau
    most: int,  # largest number of frames
    tol: float,  # relative tolerance of equal areas
) -> tuple[Tensor, Tensor, int, bool]:  # (frames, dim, dim), (frames,)
    """Return frames of the point pairs with the largest areas, weights, null axes and exactness."""
    dim = y.shape[-1]
    identity = torch.eye(dim, dtype=y.dtype, device=y.device)
    one = y.new_ones(1)
    radius = y.detach().norm(dim=-1)
    if not len(y) or not bool(radius.amax() > 0):
        return identity[None], one, dim, True
    if dim == 1 and group == "SO":
        return identity[None], one, 0, True
    hands = 1 if group == "SO" or dim == 1 else 2
    orders = 2 if dim == 3 else 1
    limit = max(most // (hands * orders), 1)
    find = _largest_pairs if dim == 3 else _largest_points
    tuples = find(y.detach(), limit + 1)
    points = y[tuples]  # (tuples, dim - 1 or 1, dim)
    size = _size(points)
    # A cross product of parallel vectors is a few roundings of the product of their lengths.
    if not bool(size[0] > 64 * torch.finfo(y.dtype).eps * radius.amax() ** orders):
        return _of_a_line(y, radius)
    # w_ij = max(A_ij - t, 0)^2 with t = max((1 - tau) max A, A_(k+1)), A the area with the centroid
    # and k the allowed number of pairs: pairs enter and leave with weight zero. In 2D, points and
    # distances take their place. Not exact if more than k pairs tie for the largest area.
    weight, exact = _weights(size, softness, limit, tol)
    used = weight.detach() > 0
    points, weight = points[: len(weight)][used], weight[used]
    if dim == 3:
        points, weight = torch.cat([points, points.flip(1)]), weight.repeat(2)
    frames = _spanned(points, group)
    weight = weight.repeat(len(frames) // len(weight))
    return frames, weight / weight.sum(), 0, exact


def _size(points: Tensor) -> Tensor:
    """Return lengths of points, or areas of pairs."""
    if points.shape[1] == 1:
        return points[:, 0].norm(dim=-1)
    return torch.linalg.cross(points[:, 0], points[:, 1]).norm(dim=-1)


def _weights(size: Tensor, softness: float, limit: int, tol: float) -> tuple[Tensor, bool]:
    """Return the weights of at most ``limit`` sizes in descending order."""
    # Frames of areas below a tenth of the largest would turn too fast to be of use.
    threshold = max(1 - softness, 0.1) * size[0]
    if len(size) > limit:
        threshold = torch.maximum(threshold, size[limit])
    if bool((size[0] - threshold).detach() <= tol * size[0].detach()):
        return torch.ones_like(size[:limit]), False
    return (size[:limit] - threshold).clamp_min(0).square(), True


def _largest_points(y: Tensor, count: int) -> Tensor:
    """Return indices (count or fewer, 1) of the outermost points, in order."""
    radius = y.norm(dim=-1)
    return radius.topk(min(count, len(radius))).indices[:, None]


def _largest_pairs(y: Tensor, count: int) -> Tensor:
    """Return indices (count or fewer, 2) of the pairs with the largest areas, in order."""
    points = len(y)
    value, index = y.new_zeros(0), torch.zeros(0, dtype=torch.long, device=y.device)
    later = torch.arange(points, device=y.device)
    for rows in torch.arange(points, device=y.device).split(max(_PAIRS_AT_A_TIME // points, 1)):
        area = torch.linalg.cross(y[rows, None].expand(-1, points, -1), y.expand(len(rows), -1, -1))
        area = torch.where(later > rows[:, None], area.norm(dim=-1), -1).flatten()
        value = torch.cat([value, area])
        index = torch.cat([index, (rows[:, None] * points + later).flatten()])
        value, best = value.topk(min(count, len(value)))
        index = index[best]
    index = index[value >= 0]
    return torch.stack([index // points, index % points], -1)


def _spanned(points: Tensor, group: str) -> Tensor:
    """Return frames of tuples (tuples, dim - 1 or 1, dim) by Gram-Schmidt."""
    a = points[:, 0] / points[:, 0].norm(dim=-1, keepdim=True)
    if a.shape[-1] == 1:
        return a[:, :, None]
    if a.shape[-1] == 2:
        return handed_frames([a, torch.stack([-a[:, 1], a[:, 0]], -1)], group)
    across = points[:, 1] - (points[:, 1] * a).sum(-1, keepdim=True) * a
    b = across / across.norm(dim=-1, keepdim=True)
    return handed_frames([a, b, torch.linalg.cross(a, b)], group)


def _of_a_line(y: Tensor, radius: Tensor) -> tuple[Tensor, Tensor, int, bool]:
    """Return frames of a cloud in space with all points on one line through the centroid."""
    outer = (radius >= radius.amax() * (1 - 1e-3)).nonzero()[:, 0]
    frames = along_line(y[outer] / y[outer].norm(dim=-1, keepdim=True))
    return frames, y.new_full((len(frames),), 1 / len(frames)), 2, True
