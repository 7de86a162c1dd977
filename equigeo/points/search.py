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

from equigeo._core.tensors import transforms_active, values_readable

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


class SciPyTrees:
    """The search of torch-cluster for nearest points, by SciPy."""

    @staticmethod
    def knn(
        points: Tensor,  # (N, C)
        centers: Tensor,  # (M, C)
        count: int,
        batch: Tensor,  # (N,) ascending
        batch_of_centers: Tensor,  # (M,) ascending
    ) -> Tensor:
        """Return rows of centers and of points, (2, pairs), nearest first."""
        clouds = int(batch_of_centers[-1]) + 1
        parts = points.split(batch.bincount(minlength=clouds).tolist())
        asked = centers.split(batch_of_centers.bincount(minlength=clouds).tolist())
        listed, first = [], 0
        for part, query in zip(parts, asked, strict=True):
            nearest = min(count, len(part))
            tree = scipy.spatial.cKDTree(part.numpy())
            _, index = tree.query(
                query.numpy(), np.arange(1, nearest + 1), workers=torch.get_num_threads()
            )
            listed.append(torch.from_numpy(index.reshape(-1)) + first)
            first += len(part)
        sizes = batch.bincount(minlength=clouds).clamp_max(count)[batch_of_centers]
        return torch.stack([torch.arange(len(centers)).repeat_interleave(sizes), torch.cat(listed)])


def cluster_for(
    points: Tensor,  # (*B, P, C)
    mask: Tensor | None,  # (*B, P)
    centers: Tensor,  # (*B, Q, C)
    count: int | None,  # of neighbors; None: all in a ball, which SciPy does not search
) -> ModuleType | type[SciPyTrees] | None:
    """Return what should search these clouds by trees, if anything."""
    if transforms_active() or torch.jit.is_tracing():  # type: ignore[attr-defined]
        return None
    if type(points) is not Tensor or not values_readable(points):
        return None
    if points.device.type != "cpu" or points.dtype not in (torch.float32, torch.float64):
        return None
    if points.numel() == 0 or points.shape[-1] > _MOST_COORDINATES:
        return None
    if centers.dtype != points.dtype or centers.numel() == 0:
        return None
    least = max(_LEAST_FOR_TREE, _LEAST_PER_NEIGHBOR * (count or 0))
    is_large = count is not None and points.shape[-2] >= least
    cluster = torch_cluster() or (SciPyTrees if is_large else None)
    if cluster is None or (mask is not None and not bool(mask.any(-1).all())):
        return None
    finite = points.isfinite().all(-1)
    finite = finite if mask is None else finite | ~mask
    is_ordered = bool(finite.all()) and bool(centers.isfinite().all())
    return cluster if is_ordered else None


def cluster_nearest(
    cluster: ModuleType | type[SciPyTrees],
    points: Tensor,  # (B, P, C)
    centers: Tensor,  # (B, Q, C)
    count: int,
    mask: Tensor | None,  # (B, P)
) -> Tensor | None:
    """Return the ``count + 1`` nearest points, nearest first, (B, Q, k), -1 if missing."""
    batch, queries = centers.shape[:2]
    count = min(count + 1, points.shape[1])
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
