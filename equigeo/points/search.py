"""Searches by trees of torch-cluster or SciPy, with the same results as comparing all pairs."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.metadata import version
from types import ModuleType
from typing import Final, NamedTuple

import numpy as np
import scipy
import torch
from torch import Tensor

from equigeo._core.tensors import is_eager
from equigeo.points.clouds import gather_rows

# Trees and comparing all pairs are both exact. Where two distances are closer than rounding can
# explain, the search by a tree is doubtful and repeated by comparing all pairs.

_VARIABLE: Final = "EQUIGEO_NEIGHBORS"
_CHOICES: Final = ("auto", "torch-cluster", "own")
_MOST_COORDINATES: Final = 3
# Points of a cloud, and points per neighbor; for fewer, comparing all pairs is faster.
_LEAST_FOR_TREE, _LEAST_PER_NEIGHBOR = 512, 16
# Above this share of doubtful rows, searching them again costs more than one search of all.
_MOST_DOUBTFUL: Final = 0.25
# By how much balls are made larger, because torch-cluster omits points on the sphere: far above
# rounding, far below what would list many points. Distances are measured again.
_SWELL: Final = 1e-3


def neighbor_backend() -> str:
    """Return ``"torch-cluster"`` and its version, or ``"equigeo"``.

    If installed, torch-cluster searches neighbors of points with up to three coordinates on the
    CPU, otherwise SciPy those of large clouds; results are the same. ``EQUIGEO_NEIGHBORS``, read
    once, is ``auto`` (the default), ``own``, or ``torch-cluster``, which raises if it is not
    installed.

    Examples
    --------
    >>> neighbor_backend().split()[0] in ("torch-cluster", "equigeo")
    True
    """
    return "equigeo" if torch_cluster() is None else f"torch-cluster {version('torch-cluster')}"


@cache
def torch_cluster() -> ModuleType | None:
    """Import torch-cluster if :func:`neighbor_backend` selects it, else return None."""
    choice = os.environ.get(_VARIABLE, "auto")
    if choice not in _CHOICES:
        raise ValueError(f"{_VARIABLE} must be one of {', '.join(_CHOICES)}, got {choice!r}")
    if choice == "own":
        return None
    try:
        return import_module("torch_cluster")
    except ModuleNotFoundError as error:
        if choice == "auto" and error.name == "torch_cluster":
            return None
        raise ImportError(
            f"{_VARIABLE} is {choice}, but {error.name} is not installed: "
            f"pip install --no-build-isolation torch-cluster, or set {_VARIABLE}=own"
        ) from error
    except (ImportError, OSError) as error:  # built for another PyTorch
        raise ImportError(
            f"torch-cluster is installed, but cannot be loaded ({error}): build it again with "
            f"pip install --no-build-isolation --force-reinstall torch-cluster, "
            f"or set {_VARIABLE}=own"
        ) from error


def trees_for(
    points: Tensor,  # (*B, P, C)
    mask: Tensor | None,  # (*B, P)
    centers: Tensor,  # (*B, Q, C)
    count: int | None,  # of neighbors; None: all in a ball, which SciPy does not search
) -> ModuleType | None:
    """Return the library that should search these clouds by trees, if any."""
    if not is_eager(points) or points.dtype not in (torch.float32, torch.float64):
        return None
    if points.numel() == 0 or points.shape[-1] > _MOST_COORDINATES:
        return None
    if centers.dtype != points.dtype or centers.numel() == 0:
        return None
    least = max(_LEAST_FOR_TREE, _LEAST_PER_NEIGHBOR * (count or 0))
    is_large = count is not None and points.shape[-2] >= least
    library = torch_cluster() or (scipy if is_large else None)
    if library is None or (mask is not None and not bool(mask.any(-1).all())):
        return None
    finite = points.isfinite().all(-1)
    finite = finite if mask is None else finite | ~mask
    is_ordered = bool(finite.all()) and bool(centers.isfinite().all())
    return library if is_ordered else None


def nearest_by_trees(
    library: ModuleType,
    points: Tensor,  # (B, P, C)
    centers: Tensor,  # (B, Q, C)
    count: int,
    mask: Tensor | None,  # (B, P)
) -> tuple[Tensor, Tensor] | None:
    """Return the ``count + 1`` nearest points, (B, Q, k), -1 if missing, and ties (B, Q, k - 1)."""
    # Nearest first. A tie is where rounding may exchange a point and the next one.
    count = min(count + 1, points.shape[1])
    if library is scipy:
        return _scipy_nearest(points, centers, count, mask)
    table = _cluster_nearest(library, points, centers, count, mask)
    if table is None:
        return None
    near = gather_rows(points, table.clamp_min(0))
    far = torch.linalg.vector_norm(near - centers[:, :, None], dim=-1)
    return table, _ties(far.masked_fill(table < 0, torch.inf), points)


def _ties(far: Tensor, points: Tensor) -> Tensor:
    """Return where rounding can explain that a distance differs from that of the next point."""
    # Each of C + 2 roundings is at most eps / 2 of the square, half of that of the distance; two
    # points, two ways of computing, and a factor of 2 to be safe. Smaller squares lose digits.
    limits = torch.finfo(points.dtype)
    margin = far[..., :-1] * (2 * (points.shape[-1] + 2) * limits.eps)
    return far.diff(dim=-1) <= margin.add_((2 * limits.tiny / limits.eps) ** 0.5)


def _scipy_nearest(
    points: Tensor, centers: Tensor, count: int, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return positions (B, Q, count) and ties, by SciPy."""
    tables, ties = [], []
    for cloud, (rows, query) in enumerate(zip(points.numpy(), centers.numpy(), strict=True)):
        there = None if mask is None else np.flatnonzero(mask[cloud].numpy())
        tree = scipy.spatial.cKDTree(rows if there is None else rows[there], balanced_tree=False)
        far, index = tree.query(query, np.arange(1, count + 1), workers=torch.get_num_threads())
        # What is missing is listed as the number of points, at infinite distance.
        tables.append(torch.from_numpy(index if there is None else np.append(there, -1)[index]))
        ties.append(_ties(torch.from_numpy(far), points))
    return torch.stack(tables), torch.stack(ties)


def _cluster_nearest(
    cluster: ModuleType, points: Tensor, centers: Tensor, count: int, mask: Tensor | None
) -> Tensor | None:
    """Return positions (B, Q, count), -1 if missing, by torch-cluster."""
    batch, queries = centers.shape[:2]
    cloud, query = _pack(points, mask), _pack(centers, None)
    row, column = cluster.knn(cloud.rows, query.rows, count, cloud.batch, query.batch)
    listed = row.bincount(minlength=batch * queries)
    sizes = cloud.batch.bincount(minlength=batch).clamp_max(count)
    # Fewer neighbors are listed if distances overflow.
    if not torch.equal(listed, sizes[query.batch]):
        return None
    rank = torch.arange(len(row)) - (listed.cumsum(0) - listed)[row]
    result = row.new_full((batch * queries, count), -1)
    result[row, rank] = cloud.positions[column]
    return result.view(batch, queries, count)


def cluster_inside(
    cluster: ModuleType,
    points: Tensor,  # (B, P, C)
    centers: Tensor,  # (B, Q, C)
    radius: float,
    mask: Tensor | None,  # (B, P)
) -> Tensor:
    """Return which points are inside balls, surfaces included, (B, Q, P) bool."""
    cloud, query = _pack(points, mask), _pack(centers, None)
    row, column = cluster.radius(
        cloud.rows,
        query.rows,
        radius * (1 + _SWELL),
        cloud.batch,
        query.batch,
        max_num_neighbors=points.shape[1],
    )
    inside = distances(query.rows[row], cloud.rows[column]) <= radius
    row, column = row[inside], column[inside]
    result = torch.zeros(*centers.shape[:2], points.shape[1], dtype=torch.bool)
    result.flatten(0, 1)[row, cloud.positions[column]] = True
    return result


def distances(a: Tensor, b: Tensor) -> Tensor:
    """Return distances between (..., C) and (..., C), bitwise equal to the library's search."""
    # A matrix of one pair each: the own search has one matrix of all pairs.
    pairs = torch.cdist(
        a[..., None, :], b[..., None, :], compute_mode="donot_use_mm_for_euclid_dist"
    )
    return pairs[..., 0, 0]


def settle(
    indices: Tensor,  # (B, Q, k) overwritten
    doubtful: Tensor,  # (B, Q)
    search: Callable[[int, Tensor], Tensor],  # from a cloud index and flags (Q,) to neighbors
) -> Tensor | None:
    """Search again where the order of points is uncertain; return None if that is too often."""
    if not doubtful.any():
        return indices
    if doubtful.double().mean() > _MOST_DOUBTFUL:
        return None
    for cloud in doubtful.any(1).nonzero()[:, 0].tolist():
        indices[cloud, doubtful[cloud]] = search(cloud, doubtful[cloud])
    return indices


class _Packed(NamedTuple):
    """Concatenated clouds: rows (N, C), cloud index (N,), and position in the cloud (N,)."""

    rows: Tensor
    batch: Tensor
    positions: Tensor


def _pack(points: Tensor, mask: Tensor | None) -> _Packed:
    if mask is None:
        mask = torch.ones(points.shape[:2], dtype=torch.bool)
    batch, positions = mask.nonzero(as_tuple=True)
    return _Packed(points[mask], batch, positions)
